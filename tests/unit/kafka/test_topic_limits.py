import pytest

from penstock.kafka.topic_limits import NO_TIMESTAMP, TopicLimits, record_bytes

from support.raw_records import RawRecord, batch_of

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize("key", [None, b"", b"k" * 200])
@pytest.mark.parametrize("size", [0, 63, 64, 8191, 8192, 1_048_576])
@pytest.mark.parametrize("headers", [[], [("n", None), ("ü", b"v" * 70)]])
def test_the_size_of_a_record_is_that_of_its_batch_in_kafkas_format(
    key: bytes | None, size: int, headers: list[tuple[str, bytes | None]]
) -> None:
    listed = [(name.encode(), value) for name, value in headers]

    expected = len(batch_of(RawRecord(b"x" * size, key=key, headers=listed), checked=False))

    assert expected == record_bytes(key, b"x" * size, headers)


@pytest.mark.parametrize(
    ("limits", "key", "at_ms", "expected"),
    [
        (TopicLimits(), None, NOW_MS, None),
        (TopicLimits(max_bytes=record_bytes(b"k", b"value", [])), b"k", NOW_MS, None),
        (TopicLimits(max_bytes=record_bytes(b"k", b"value", []) - 1), b"k", NOW_MS, "RecordTooLarge"),
        (TopicLimits(needs_key=True), None, NOW_MS, "NoKey"),
        (TopicLimits(needs_key=True), b"", NOW_MS, None),
        (TopicLimits(), None, NOW_MS + 3_600_000, None),
        (TopicLimits(), None, NOW_MS + 3_600_001, "TimestampRefused"),
        (TopicLimits(before_ms=1000), None, NOW_MS - 1001, "TimestampRefused"),
        (TopicLimits(before_ms=1000), None, NO_TIMESTAMP, None),
        (TopicLimits(before_ms=1000), None, 0, None),
    ],
)
def test_a_topic_takes_what_is_within_its_limits(
    limits: TopicLimits, key: bytes | None, at_ms: int, expected: str | None
) -> None:
    found = limits.refusal(key, b"value", [], at_ms, NOW_MS)

    assert expected == (found[0] if found is not None else None)
