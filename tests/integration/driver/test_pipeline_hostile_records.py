"""Records of every shape that Kafka holds: none stops a pipeline, each lands or is a dead letter that says why."""

import hashlib
import json
import time
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.config import settings
from penstock.delivery.selection import Filter, select
from penstock.errors import BadInput, PipelineHalted
from penstock.kafka import topics
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.reader import read_all
from penstock.kafka.topic_limits import record_bytes
from penstock.kafka.topic_spec import TopicSpec
from penstock.operate import replay as replays
from penstock.record.decoded import RecordError
from penstock.record.positions import OffsetRange
from penstock.sinks.json import JsonSink
from penstock.sources.kafka import KafkaSource
from penstock.sources.kafka_reader import KafkaReader

from support.landing import headers
from support.pipelines import Lab, record_errors, total
from support.raw_records import RawRecord, send_raw

NANOSECONDS = 1_700_000_000_000_000_000
TIMES_MS = [NANOSECONDS, NANOSECONDS // 1000, 0, -1, -5, -(2**62), 2**63 - 1, 253_402_300_800_000, 1_700_000_000_000]
TAKES_ANY_TIME = {"message.timestamp.after.max.ms": 2**63 - 1}


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(folder.glob("[!_.]*")) for line in file.read_text().splitlines()]


def test_any_timestamp_lands_in_every_sink_or_is_a_dead_letter_that_keeps_it(lab: Lab) -> None:
    topic, target = (
        lab.kafka.topic("times", config=TAKES_ANY_TIME, retention="forever"),
        lab.kafka.topic("times-out", config=TAKES_ANY_TIME, retention="forever"),
    )
    for at_ms in TIMES_MS:
        good = RawRecord(json.dumps({"id": at_ms}).encode(), timestamp_ms=at_ms)
        send_raw(lab.connection, topic, good, RawRecord(b"poison", timestamp_ms=at_ms))
    sinks = [
        {"type": "delta", "path": str(lab.table)},
        {"type": "json", "path": str(lab.folder / "lines"), "gzip": False},
        {"type": "kafka", "topic": target},
    ]
    began_ms = int(time.time() * 1000)

    lab.run(lab.spec(topic, steps=[{"sql": "SELECT *, year(_timestamp) AS year FROM events"}], sinks=sinks))

    years = [None, None, 1970, None, 1969, None, None, None, 2023]
    assert list(zip(TIMES_MS, years, strict=True)) == [(row["id"], row["year"]) for row in lab.rows()]
    assert TIMES_MS == [row["id"] for row in lines(lab.folder / "lines")]
    assert TIMES_MS == [letter.timestamp_ms for letter in lab.letters(topic)]
    for found in (read_all(lab.connection, target), lab.dead_records(topic)):
        kept_ms = [message.timestamp()[1] for message in found]
        assert [at_ms for at_ms in TIMES_MS if at_ms] == [
            kept for at_ms, kept in zip(TIMES_MS, kept_ms, strict=True) if at_ms
        ]
        assert began_ms <= kept_ms[TIMES_MS.index(0)]  # no client can send a zero: it is the client's word for now


def test_headers_without_values_are_kept_and_names_that_are_no_utf_8_are_a_dead_letter(lab: Lab) -> None:
    topic, target = lab.kafka.topic("names"), lab.kafka.topic("names-out")
    odd: list[tuple[bytes, bytes | None]] = [(b"none", None), (b"", b""), (b"twice", b"\xff"), (b"twice", b"2")]
    broken: list[tuple[bytes, bytes | None]] = [(b"ok", b"1"), (b"\xff\xfe", b"v")]
    # Many: how the client fails on such a name changes once the interpreter has seen enough of them.
    listed = [odd, *[broken] * 100, []]
    send_raw(lab.connection, topic, *(RawRecord(b'{"id": 1}', key=b"", headers=each) for each in listed))

    reports = lab.run(lab.spec(topic, sinks=[{"type": "kafka", "topic": target}]))

    first, second = read_all(lab.connection, target)
    assert [("none", None), ("", b""), ("twice", b"\xff"), ("twice", b"2")] == headers(first)[:4]
    assert (
        b"",
        ["penstock.topic_id", "penstock.partition", "penstock.offset", "penstock.position", "penstock.format"],
    ) == (
        second.key(),
        [name for name, _ in headers(second)],
    )
    assert [(number, "decode", "HeadersUnreadable") for number in range(1, 101)] == record_errors(lab.letters(topic))
    assert (102, 2, 100, 0) == _numbers(total(reports, "kafka"))


def test_a_malformed_record_as_large_as_a_topic_takes_and_one_from_the_future_are_whole_letters(lab: Lab) -> None:
    topic = lab.kafka.topic("large", config=TAKES_ANY_TIME, retention="forever")
    ahead_ms = int(time.time() * 1000) + 7_200_000
    largest = 1_048_588 - record_bytes(None, b"x" * 1_000_000, []) + 1_000_000
    with Producer(lab.connection, ProducerOptions(record_max_bytes=2_000_000, compression="none")) as producer:
        producer.send(topic, b"x" * 1_010_000)
        producer.send(topic, b"x" * largest)
        producer.send(topic, b"poison", timestamp_ms=ahead_ms)

    lab.run(lab.spec(topic))

    kept = [(len(message.value() or b""), message.timestamp()[1] == ahead_ms) for message in lab.dead_records(topic)]
    assert [(1_010_000, False), (largest, False), (6, True)] == kept
    assert [None] * 3 == [letter.stub for letter in lab.letters(topic)]


def test_a_letter_that_its_topic_does_not_take_is_a_stub_which_cannot_be_replayed(lab: Lab) -> None:
    topic = lab.kafka.topic("stub", config=TAKES_ANY_TIME, retention="forever")
    small = TopicSpec(partitions=1, retention="forever", config={"max.message.bytes": 2000})
    topics.create(lab.kafka.admin(), f"{topic}.dead", small)
    value, ahead_ms = b"y" * 3000, int(time.time() * 1000) + 7_200_000
    with Producer(lab.connection) as producer:
        producer.send(topic, value, key=b"k", timestamp_ms=ahead_ms)
        for _ in range(20):
            producer.send(topic, b"whole" * 100, timestamp_ms=ahead_ms)
    file = lab.folder / "pipeline.yaml"
    file.write_text(json.dumps(lab.document(topic)))

    lab.run(lab.spec(topic))

    (stub, *whole), (record, *_) = lab.letters(topic), lab.dead_records(topic)
    assert (3000, hashlib.sha256(value).hexdigest()) == (stub.value_bytes, stub.value_sha256)
    assert ("decode", "Malformed", topic, 0, 0, ahead_ms) == (
        stub.stage,
        stub.error,
        stub.topic,
        stub.partition,
        stub.offset,
        stub.timestamp_ms,
    )
    assert (None, None) == (record.key(), record.value())
    assert [(None, ahead_ms)] * 20 == [(letter.stub, letter.timestamp_ms) for letter in whole]
    with pytest.raises(BadInput, match=r"is a stub, and cannot be replayed.*stub.*/0 offset 0"):
        replays.begin(settings.load(home=lab.kafka.home), [stub], file)
    assert 21 == len(list(select(lab.connection, Filter(pipeline=topic))))


def test_rows_that_a_topic_refuses_are_dead_letters_for_that_sink_alone(lab: Lab) -> None:
    topic = lab.kafka.topic("refused", config={"max.message.bytes": 5_000_000, **TAKES_ANY_TIME})
    target = lab.kafka.topic("refused-out", cleanup="compact")
    ahead_ms = int(time.time() * 1000) + 7_200_000
    with Producer(lab.connection, ProducerOptions(record_max_bytes=5_000_000)) as producer:
        producer.send(topic, json.dumps({"id": 0, "name": "n" * 1_200_000}), key="k")
        producer.send(topic, json.dumps({"id": 1}))
        producer.send(topic, json.dumps({"id": 2}), key="k", timestamp_ms=ahead_ms)
        producer.send(topic, json.dumps({"id": 3}), key="k")
    sinks = [{"type": "kafka", "topic": target}, {"type": "delta", "path": str(lab.table)}]

    reports = lab.run(lab.spec(topic, sinks=sinks))

    letters = lab.letters(topic)
    assert [(0, "sink", "RecordTooLarge"), (1, "sink", "NoKey"), (2, "sink", "TimestampRefused")] == record_errors(
        letters
    )
    assert {"kafka"} == {letter.sink for letter in letters}
    assert [3] == [json.loads(message.value() or b"")["id"] for message in read_all(lab.connection, target)]
    assert [0, 1, 2, 3] == lab.ids()
    assert (4, 1, 3, 0) == _numbers(total(reports, "kafka"))


def test_keys_go_where_javas_clients_send_them_and_the_rest_is_as_the_sink_says(lab: Lab) -> None:
    # Records of 1970 are older than any retention: Kafka may delete them at once.
    topic = lab.kafka.topic("keys", retention="forever")
    target = lab.kafka.topic("keys-out", partitions=7, retention="forever")
    told = lab.kafka.topic("keys-told", partitions=7)
    keys = [b"", b"k", "ü".encode(), b"\xff\x00", *(b"key-%d" % number for number in range(20))]
    with Producer(lab.connection) as producer:
        for key in keys:
            producer.send(topic, b'{"id": 1}', key=key, headers=[("own", b"1")], timestamp_ms=1001)
    other = {
        "type": "kafka",
        "name": "told",
        "topic": told,
        "partitioner": "crc32",
        "headers": False,
        "timestamp": "now",
    }

    lab.run(lab.spec(topic, sinks=[{"type": "kafka", "topic": target}, other]))

    java: Any = lab.spark._jvm
    murmur2 = java.org.apache.kafka.common.utils.Utils.murmur2
    found, told_found = read_all(lab.connection, target), read_all(lab.connection, told)
    assert {key: (murmur2(key) & 0x7FFFFFFF) % 7 for key in keys} == {each.key(): each.partition() for each in found}
    assert {key: zlib.crc32(key) % 7 for key in keys if key} == {
        each.key(): each.partition() for each in told_found if each.key()
    }
    assert {(6, 1001)} == {(len(headers(each)), each.timestamp()[1]) for each in found}
    assert {(5, False)} == {(len(headers(each)), each.timestamp()[1] == 1001) for each in told_found}


def test_values_that_sql_can_make_and_no_sink_can_hold_are_refused_row_by_row(lab: Lab) -> None:
    topic, target = lab.kafka.topic("made"), lab.kafka.topic("made-out")
    with Producer(lab.connection) as producer:
        for number, key in enumerate([b"fine", b"\xff\xfe", b"fine", b"fine", b"fine"]):
            producer.send(topic, json.dumps({"id": number}), key=key)
    later = "SELECT *, CAST(_key AS string) AS k, timestamp_micros(id * 100000000000000000) AS at FROM events"
    sinks = [
        {"type": "delta", "path": str(lab.table)},
        {"type": "json", "path": str(lab.folder / "lines"), "gzip": False},
        {"type": "kafka", "topic": target},
    ]

    lab.run(lab.spec(topic, steps=[{"sql": later}], sinks=sinks))

    refused = [(letter.offset, letter.sink) for letter in lab.letters(topic)]
    beyond = [(number, sink) for number in (3, 4) for sink in ("json", "kafka")]  # after the year 9999
    assert [(1, "delta"), (1, "json"), (1, "kafka"), *beyond] == sorted(refused, key=lambda each: (each[0], each[1]))
    assert [0, 2] == [row["id"] for row in lines(lab.folder / "lines")]
    assert [0, 2] == [json.loads(message.value() or b"")["id"] for message in read_all(lab.connection, target)]


def test_a_record_that_only_the_staging_fails_on_is_found_and_the_rest_lands(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = lab.kafka.topic("staging")
    lab.send_ids(topic, range(3))
    real = JsonSink.stager

    def stager(sink: JsonSink) -> Any:
        factory = real(sink)

        class Failing:
            """Travels to the tasks by value, for it is nobody's module's."""

            def __init__(self, offset_range: OffsetRange) -> None:
                self._real = factory(offset_range)

            def write(self, rows: pa.RecordBatch, offsets: pa.Array) -> list[tuple[int, RecordError]]:
                if 2 in offsets.to_pylist():
                    raise RuntimeError("a defect of the stager")
                return self._real.write(rows, offsets)

            def finish(self) -> dict[str, Any]:
                return self._real.finish()

        return Failing

    monkeypatch.setattr(JsonSink, "stager", stager)
    folder = lab.folder / "lines"

    lab.run(lab.spec(topic, sinks=[{"type": "json", "path": str(folder), "gzip": False}]))

    assert [0, 1] == [row["id"] for row in lines(folder)]
    assert [(2, "sink")] == [(letter.offset, letter.stage) for letter in lab.letters(topic)]


def test_a_record_that_cannot_be_read_is_passed_over_with_a_stub(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = lab.kafka.topic("unreadable")
    lab.send_ids(topic, range(3))
    _break_reading(monkeypatch, even_if_rejected=False)

    lab.run(lab.spec(topic))

    (letter,) = lab.letters(topic)
    assert [0, 1] == lab.ids()
    assert ((2, "decode", "NotRead"), "it cannot be read") == (*record_errors([letter]), letter.stub)


def test_a_record_that_fails_even_when_it_is_passed_over_ends_the_run_and_says_how_to_go_on(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = lab.kafka.topic("hopeless")
    lab.send_ids(topic, range(3))
    _break_reading(monkeypatch, even_if_rejected=True)

    with pytest.raises(PipelineHalted, match=f"{topic}/0 offset 2 makes the job fail even as a dead letter") as failed:
        lab.run(lab.spec(topic))

    assert f"penstock pipeline skip {topic} {topic}:0:2 --reason" in failed.value.fix


def _break_reading(monkeypatch: pytest.MonkeyPatch, *, even_if_rejected: bool) -> None:
    real = KafkaSource.reader

    def reader(source: KafkaSource) -> Any:
        kafka: KafkaReader = real(source)

        class Failing:
            """Fails on one offset. Travels to the tasks by value, for it is nobody's module's."""

            def chunks(
                self, offset_range: OffsetRange, max_bytes: int | None = None, rejected: Collection[int] = ()
            ) -> Iterator[tuple[pa.RecordBatch, int]]:
                if offset_range.start <= 2 < offset_range.end and (even_if_rejected or 2 not in rejected):
                    raise RuntimeError("a record that no client can take apart")
                return kafka.chunks(offset_range, max_bytes, rejected)

        return Failing()

    monkeypatch.setattr(KafkaSource, "reader", reader)


def _numbers(count: Any) -> tuple[int, int, int, int]:
    return count.read, count.written, count.dead, count.dropped
