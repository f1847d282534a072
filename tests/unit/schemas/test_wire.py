import pytest

from penstock.schemas.wire import (
    UnframedError,
    framed,
    looks_framed,
    message_indexes,
    schema_id_of,
    with_message_indexes,
)


def test_an_id_stands_behind_a_zero_byte_in_four_bytes() -> None:
    assert b"\x00\x00\x01\x02\x03rest" == framed(0x010203, b"rest")
    assert 0x010203 == schema_id_of(b"\x00\x00\x01\x02\x03rest")


def test_what_looks_framed_has_an_id_and_something_behind_it() -> None:
    small_number = (3).to_bytes(8)
    values = [framed(1, b"x"), framed(1, b""), small_number, b'{"id": 1}', b""]

    assert [True, False, False, False, False] == [looks_framed(value) for value in values]


@pytest.mark.parametrize(
    ("value", "error", "told"),
    [
        (b"", "NoSchemaId", "0 bytes"),
        (b"\x00\x00\x00\x00", "NoSchemaId", "4 bytes"),
        (b'{"id": 1}', "WrongMagicByte", "the first byte is 123"),
        (b"\x01\x00\x00\x00\x01", "WrongMagicByte", "the first byte is 1"),
    ],
)
def test_a_value_without_an_id_says_so(value: bytes, error: str, told: str) -> None:
    with pytest.raises(UnframedError, match=told) as found:
        schema_id_of(value)

    assert error == found.value.error


@pytest.mark.parametrize(
    ("indexes", "written"),
    [((0,), b"\x00"), ((1,), b"\x02\x02"), ((2, 0, 1), b"\x06\x04\x00\x02"), ((64,), b"\x02\x80\x01")],
)
def test_message_indexes_are_zigzag_and_the_first_message_is_a_lone_zero(
    indexes: tuple[int, ...], written: bytes
) -> None:
    assert written + b"m" == with_message_indexes(indexes, b"m")
    assert (indexes, len(written)) == message_indexes(written + b"m")


def test_the_long_form_of_the_first_message_is_read_too() -> None:
    assert ((0,), 2) == message_indexes(b"\x02\x00rest")


@pytest.mark.parametrize("payload", [b"", b"\x04\x02", b"\x80", b"\x03", b"\xff\xff\xff\xff\xff\xff\xff"])
def test_indexes_that_end_too_early_or_cannot_be_are_told(payload: bytes) -> None:
    with pytest.raises(UnframedError):
        message_indexes(payload)
