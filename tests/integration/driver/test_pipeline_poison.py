"""Records that cannot be decoded: each a dead letter as it was sent, with the reason; the rest lands."""

from typing import Any

import pytest

from penstock.kafka.producer import Producer

from support.landing import headers
from support.pipelines import Lab, record_errors, total

SCHEMA = "id bigint NOT NULL, name string, small tinyint, at timestamp, tags array<string>"
GOOD = b'{"id": 1, "name": "\xc3\xa9", "small": 127, "at": "2026-01-31T12:00:00Z", "tags": ["a", null]}'
POISON: list[tuple[bytes | None, str]] = [
    (b'{"id": 1', "Malformed"),
    (b'{"id": 1} {"id": 2}', "Malformed"),
    (b'{"id": 1}x', "Malformed"),
    (b"plainly no JSON", "Malformed"),
    (b'{"id": 1, "name": "\xff\xfe"}', "Malformed"),
    (b'{"id": 1, "name": "\\ud800"}', "Malformed"),
    (b'{"id": NaN}', "Malformed"),
    (b"[1]", "SchemaMismatch"),
    (b"null", "SchemaMismatch"),
    (b'{"id": "1"}', "SchemaMismatch"),
    (b'{"id": 1.5}', "SchemaMismatch"),
    (b'{"id": true}', "SchemaMismatch"),
    (b'{"id": 9223372036854775808}', "SchemaMismatch"),
    (b'{"id": 1, "small": 128}', "SchemaMismatch"),
    (b'{"id": 1, "at": "yesterday"}', "SchemaMismatch"),
    (b'{"id": 1, "tags": "a"}', "SchemaMismatch"),
    (b'{"name": "no id"}', "SchemaMismatch"),
    (b'{"id": null}', "SchemaMismatch"),
    (b"", "EmptyValue"),
    (b" \n", "EmptyValue"),
    (None, "Tombstone"),
    (b'{"id": 1, "name": "' + b"x" * 2000 + b'"}', "TooLarge"),
    (b'{"id": 1, "deep": ' + b"[" * 70 + b"]" * 70 + b"}", "TooDeep"),
]
ODD_HEADERS: list[tuple[str, bytes | None]] = [
    ("trace", b"\x00\xff"),
    ("trace", b"again"),
    ("none", None),
    ("empty", b""),
    ("", b"nameless"),
]
# 1001 ms as a floating-point number of seconds, times 1000, is a little less than 1001.
TIMES_MS = [1001, *(1_700_000_000_000 + number * 1_001 for number in range(1, len(POISON)))]


def decode(**parts: Any) -> dict[str, Any]:
    return {"type": "json", "schema": SCHEMA, **parts}


def test_one_record_of_every_kind_of_poison_becomes_a_dead_letter_and_the_rest_lands(lab: Lab) -> None:
    topic = lab.kafka.topic("poison")
    with Producer(lab.connection) as producer:
        for value, _ in POISON:
            producer.send(topic, value)
            producer.send(topic, GOOD)

    reports = lab.run(lab.spec(topic, decode=decode(max_record_bytes="1kB")))

    expected = [(2 * number, "decode", error) for number, (_, error) in enumerate(POISON)]
    assert expected == record_errors(lab.letters(topic))
    assert [2 * number + 1 for number in range(len(POISON))] == [row["_offset"] for row in lab.rows()]
    assert {("é", 127, ("a", None))} == {(row["name"], row["small"], tuple(row["tags"])) for row in lab.rows()}
    assert (2 * len(POISON), len(POISON), len(POISON), 0) == _numbers(total(reports))


def test_a_dead_letter_keeps_key_value_headers_and_timestamp_byte_for_byte(lab: Lab) -> None:
    topic = lab.kafka.topic("bytes", retention="forever")
    keys: list[bytes | None] = [None, b"", b"\x00\xff", b"plain"]
    sent = [
        (keys[number % 4], value, ODD_HEADERS[: number % 6], TIMES_MS[number])
        for number, (value, _) in enumerate(POISON)
    ]
    with Producer(lab.connection) as producer:
        for key, value, listed, at_ms in sent:
            producer.send(topic, value, key=key, headers=list(listed), timestamp_ms=at_ms)

    lab.run(lab.spec(topic, decode=decode(max_record_bytes="1kB")))

    kept = [
        (
            message.key(),
            message.value(),
            [each for each in headers(message) if not each[0].startswith("penstock.")],
            message.timestamp()[1],
        )
        for message in lab.dead_records(topic)
    ]
    assert sent == kept


def test_headers_of_the_record_that_begin_like_those_of_penstock_are_kept_too(lab: Lab) -> None:
    topic = lab.kafka.topic("theirs")
    with Producer(lab.connection) as producer:
        producer.send(topic, b"poison", headers=[("penstock.topic_id", b"from a pipeline before"), ("own", b"1")])

    lab.run(lab.spec(topic))

    (record,) = lab.dead_records(topic)
    assert [("penstock.topic_id", b"from a pipeline before"), ("own", b"1")] == headers(record)[:2]
    assert [topic] == [letter.topic for letter in lab.letters(topic)]


def test_the_envelope_says_where_the_record_came_from_and_that_it_failed_once(lab: Lab) -> None:
    topic = lab.kafka.topic("envelope", partitions=2)
    lab.send(topic, {"id": 1}, b"poison", partition=1)

    lab.run(lab.spec(topic))

    (letter,) = lab.letters(topic)
    told = (letter.pipeline, letter.topic, letter.partition, letter.offset, letter.attempt, letter.sink)
    assert (topic, topic, 1, 1, 1, None) == told
    assert lab.rows()[0]["_topic_id"] == letter.topic_id
    assert "malformed" in letter.message


@pytest.mark.parametrize(
    ("kind", "policy", "landed", "dropped"),
    [
        ("json", "drop", 1, 1),
        ("text", "drop", 1, 1),
        ("raw", "keep", 2, 0),
    ],
)
def test_what_becomes_of_a_tombstone_is_the_users_to_say(
    kind: str, policy: str, landed: int, dropped: int, lab: Lab
) -> None:
    topic = lab.kafka.topic("tombstones")
    lab.send(topic, GOOD, None)
    decoder = {"type": kind, "tombstones": policy, **({"schema": SCHEMA} if kind == "json" else {})}

    reports = lab.run(lab.spec(topic, decode=decoder))

    assert (2, landed, 0, dropped) == _numbers(total(reports))
    assert [] == lab.letters(topic)


def test_unknown_fields_are_ignored_or_fail_the_record_as_the_user_says(lab: Lab) -> None:
    topic = lab.kafka.topic("unknown")
    lab.send(topic, {"id": 1}, {"id": 2, "surprise": 1})
    strict = {"type": "delta", "path": str(lab.folder / "strict")}

    lab.run(lab.spec(topic))
    lab.run(lab.spec(topic, name=f"{topic}-strict", decode=decode(unknown_fields="dead_letter"), sinks=[strict]))

    assert [1, 2] == lab.ids()
    assert [1] == lab.ids(lab.folder / "strict")
    assert [(1, "decode", "SchemaMismatch")] == record_errors(lab.letters(topic))


def test_text_that_is_no_utf_8_fails_and_raw_bytes_never_do(lab: Lab) -> None:
    topic = lab.kafka.topic("text")
    lab.send(topic, "grün", b"\xff", b"")
    raw = {"type": "delta", "path": str(lab.folder / "raw")}

    lab.run(lab.spec(topic, decode={"type": "text"}))
    lab.run(lab.spec(topic, name=f"{topic}-raw", decode={"type": "raw"}, sinks=[raw]))

    assert ["grün", ""] == [row["text"] for row in lab.rows()]
    assert [(1, "decode", "Malformed")] == record_errors(lab.letters(topic))
    assert ["grün".encode(), b"\xff", b""] == [row["value"] for row in lab.rows(lab.folder / "raw")]


def _numbers(count: Any) -> tuple[int, int, int, int]:
    return count.read, count.written, count.dead, count.dropped
