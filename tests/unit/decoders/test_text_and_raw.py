import pickle
import random
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from penstock.decoders.raw import Raw
from penstock.decoders.text import Text
from penstock.record.decoded import Decoded

from support.events import OPENING


def errors(decoded: Decoded) -> list[str | None]:
    return [None if record_error is None else record_error["error"] for record_error in decoded.record_errors]


def values(decoded: Decoded) -> list[Any]:
    (column,) = decoded.columns
    return column.to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("text", ["", " ", "x", "ü 😀", "a\x00b", "\ufeffx", "line\r\nline", "{}"])
def test_text_is_the_bytes_unchanged(text: str) -> None:
    decoded = Text().open(OPENING).decode([text.encode()])

    assert ([text], [None]) == (values(decoded), errors(decoded))


@pytest.mark.parametrize("value", [b"\xff", b"ab\xc3", b"\xed\xa0\x80", b"\xc0\x80", "x".encode("utf-16")])
def test_bytes_that_are_no_utf_8_are_malformed(value: bytes) -> None:
    decoded = Text().open(OPENING).decode([value])

    assert ([None], ["Malformed"]) == (values(decoded), errors(decoded))


def test_the_position_of_the_first_wrong_byte_is_reported_and_the_bytes_are_not() -> None:
    (record_error,) = Text().open(OPENING).decode([b"secret\xff"]).record_errors

    assert {
        "stage": "decode",
        "error": "Malformed",
        "message": "not UTF-8: invalid start byte at byte 6",
    } == record_error


@pytest.mark.parametrize(
    ("model", "error", "dropped"),
    [
        pytest.param(Text(), "Tombstone", False, id="text fails"),
        pytest.param(Text(tombstones="dead_letter"), "Tombstone", False, id="text is to fail"),
        pytest.param(Text(tombstones="drop"), None, True, id="text is to be dropped"),
        pytest.param(Raw(), None, False, id="raw keeps"),
        pytest.param(Raw(tombstones="keep"), None, False, id="raw is to keep"),
        pytest.param(Raw(tombstones="dead_letter"), "Tombstone", False, id="raw is to fail"),
        pytest.param(Raw(tombstones="drop"), None, True, id="raw is to be dropped"),
    ],
)
def test_a_tombstone_is_treated_as_the_model_says(model: Text | Raw, error: str | None, dropped: bool) -> None:  # noqa: FBT001
    decoded = model.open(OPENING).decode([None, b"x"])

    assert ([error, None], [dropped, False]) == (errors(decoded), decoded.dropped)
    assert None is values(decoded)[0]


@pytest.mark.parametrize("model", [Text(max_record_bytes=2), Raw(max_record_bytes=2)])
def test_a_record_as_large_as_allowed_passes_and_a_larger_one_fails(model: Text | Raw) -> None:
    decoded = model.open(OPENING).decode([b"xy", b"xyz", "ü".encode(), "üx".encode()])

    assert [None, "TooLarge", None, "TooLarge"] == errors(decoded)


@pytest.mark.parametrize("value", [b"", b"\x00", b"\xff\xfe", bytes(range(256))])
def test_raw_bytes_are_not_looked_at(value: bytes) -> None:
    decoded = Raw().open(OPENING).decode([value])

    assert ([value], [None], [False]) == (values(decoded), errors(decoded), decoded.dropped)


@pytest.mark.parametrize(("model", "kind"), [(Text(), pa.string()), (Raw(), pa.binary())])
def test_no_values_give_no_rows_of_the_right_type(model: Text | Raw, kind: pa.DataType) -> None:
    decoded = model.open(OPENING).decode([])

    assert ([kind], [], []) == ([each.type for each in decoded.columns], decoded.record_errors, decoded.dropped)
    assert [kind] == [field.type for field in model.arrow_schema]


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes_pass_through_raw_and_through_text_if_they_are_text(seed: int) -> None:
    dice = random.Random(seed)
    given = [dice.randbytes(dice.randrange(6)) for _ in range(300)]

    raw, text = Raw().open(OPENING).decode(given), Text().open(OPENING).decode(given)

    assert given == values(raw)
    assert [value for value, error in zip(given, errors(text), strict=True) if error is None] == [
        value.encode() for value in values(text) if value is not None
    ]


@pytest.mark.parametrize("model", [Text(tombstones="drop"), Raw(tombstones="drop")])
def test_the_model_travels_to_the_tasks_and_decodes_there(model: Text | Raw) -> None:
    arrived = pickle.loads(pickle.dumps(model))  # noqa: S301 - our own bytes

    assert [True] == arrived.open(OPENING).decode([None]).dropped


@pytest.mark.parametrize("options", [{"tombstones": "keep"}, {"max_record_bytes": 0}, {"schema": "a int"}])
def test_a_model_of_text_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Text(**options)
