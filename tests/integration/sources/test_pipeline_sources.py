"""Sources: which records a pipeline reads, from where on, how many at once, and never one twice."""

import gzip
import time
from typing import Any

import pytest

from penstock.delivery import gaps
from penstock.errors import BadInput, ClusterReplaced, NotFound, RetentionPassed
from penstock.kafka import topics
from penstock.kafka.cluster import cluster_id
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.topic_spec import TopicSpec
from penstock.operate import repair
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sources.kafka_reader import KafkaReader

from support.pipelines import Lab, dying, record_errors, total


def source(topic: str, **parts: Any) -> dict[str, Any]:
    return {"type": "kafka", "topics": [topic], **parts}


def test_a_pattern_takes_every_topic_that_matches_whole_and_those_that_come_later(lab: Lab) -> None:
    one = lab.kafka.topic("pattern-a")
    other = lab.kafka.topic("pattern-b", partitions=2)
    longer = lab.kafka.topic("xpattern-a")
    lab.send(one, {"id": 1}, b"poison")
    lab.send_ids(other, [2], partition=1)
    lab.send_ids(longer, [3])
    spec = lab.spec(one, source={"type": "kafka", "pattern": r"pattern-[abc](-\d+)?", "start": "latest"})

    lab.run(spec)
    lab.send_ids(one, [10])
    topics.create(lab.kafka.admin(), "pattern-c", TopicSpec(partitions=1))
    lab.send_ids("pattern-c", [11, 12])
    lab.run(spec)
    topics.delete(lab.kafka.admin(), "pattern-c")

    assert [10, 11, 12] == lab.ids()


def test_a_pattern_that_nothing_matches_is_reported(lab: Lab) -> None:
    with pytest.raises(NotFound, match="no topic matches 'nothing-like-it'"):
        lab.run(lab.spec("unmatched", source={"type": "kafka", "pattern": "nothing-like-it"}))


def test_a_new_pipeline_begins_where_its_file_says(lab: Lab) -> None:
    topic = lab.kafka.topic("starts", partitions=2, retention="forever")
    noon_ms = int(time.time() * 1000) - 3_600_000
    with Producer(lab.connection) as producer:
        for number in range(4):
            producer.send(topic, f'{{"id": {number}}}', partition=0, timestamp_ms=noon_ms + number * 600_000)
        producer.send(topic, '{"id": 10}', partition=1, timestamp_ms=noon_ms)
    begins: dict[str, dict[str, Any]] = {
        "earliest": {"start": "earliest"},
        "latest": {"start": "latest"},
        "time": {"start": "45m"},
        "offsets": {"offsets": {topic: {0: 3}}},
    }

    for name, begin in begins.items():
        spec = lab.spec(
            topic,
            name=f"{topic}-{name}",
            source=source(topic, **begin),
            sinks=[{"type": "delta", "path": str(lab.folder / name)}],
        )
        lab.run(spec)
    landed = {name: lab.ids(lab.folder / name) for name in begins}

    assert {"earliest": [0, 1, 2, 3, 10], "latest": [], "time": [2, 3], "offsets": [3, 10]} == landed


def test_an_offset_that_the_topic_does_not_hold_is_refused(lab: Lab) -> None:
    topic = lab.kafka.topic("beyond")
    lab.send_ids(topic, [1])

    with pytest.raises(BadInput, match=rf"offset 9 is not in {topic}/0, which holds 0 to 1"):
        lab.run(lab.spec(topic, source=source(topic, offsets={topic: {0: 9}})))


def test_new_partitions_are_read_from_their_start_even_by_one_that_began_at_the_end(lab: Lab) -> None:
    topic = lab.kafka.topic("grown")
    spec = lab.spec(topic, source=source(topic, start="latest"))
    lab.send_ids(topic, [1])
    lab.run(spec)
    topics.add_partitions(lab.kafka.admin(), topic, 3)
    lab.send_ids(topic, [2])
    lab.send(topic, {"id": 3}, b"poison", partition=2)

    reports = lab.run(spec)

    assert [2, 3] == lab.ids()
    assert [(1, "decode", "Malformed")] == record_errors(lab.letters(topic))
    assert 3 == total(reports).read


def test_aborted_records_never_land_and_an_open_transaction_is_waited_for_later(lab: Lab) -> None:
    topic = lab.kafka.topic("transactions")
    spec = lab.spec(topic, batch={"max_events": 5})
    options = ProducerOptions(transactional_id=f"{topic}-sender")
    with Producer(lab.connection, options) as producer:
        for first in range(0, 9, 3):
            with producer.transaction():
                for number in range(first, first + 3):
                    producer.send(topic, f'{{"id": {number}}}')
            with pytest.raises(ZeroDivisionError), producer.transaction():
                producer.send(topic, '{"id": 666}')
                producer.flush()
                raise ZeroDivisionError
        with producer.transaction():
            producer.send(topic, '{"id": 100}')
            producer.flush()
            lab.send_ids(topic, [101])
            while_open = [lab.run(spec), lab.ids()]
    lab.run(spec)

    assert list(range(9)) == while_open[1]
    assert [*range(9), 100, 101] == lab.ids()
    assert [] == lab.run(spec)


def test_every_batch_is_bounded_by_events_and_shared_among_partitions(lab: Lab) -> None:
    topic = lab.kafka.topic("bounded", partitions=3)
    lab.send_ids(topic, range(50))
    lab.send_ids(topic, range(50, 55), partition=1)

    reports = lab.run(lab.spec(topic, batch={"max_events": 20}))

    assert [20, 20, 15] == [report.read for report in reports]
    assert [1, 2, 3] == [report.batch for report in reports]
    assert list(range(55)) == lab.ids()
    assert [] == lab.run(lab.spec(topic))


def test_every_batch_is_bounded_by_bytes(lab: Lab) -> None:
    topic = lab.kafka.topic("bytes")
    lab.send(topic, *({"id": number, "name": "x" * 100_000} for number in range(40)))

    reports = lab.run(lab.spec(topic, batch={"max_bytes": "1MB"}))

    # Roughly: what one fetch brings, which is a megabyte by default, may come on top.
    assert max(report.read for report in reports) <= 22
    assert list(range(40)) == lab.ids()


def test_files_are_read_once_line_by_line_plain_or_compressed(lab: Lab) -> None:
    folder = lab.folder / "incoming"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(b'{"id": 1}\n{"id": 2}\r\npoison\n{"id": 3}')
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(b'{"id": 4}\n\n{"id": 5}\n'))
    (folder / "_ignored").write_bytes(b'{"id": 6}\n')
    name = lab.kafka.topic("files")
    spec = lab.spec(name, source={"type": "files", "path": str(folder)})

    first = lab.run(spec)
    again = lab.run(spec)
    (folder / "c.jsonl").write_bytes(b'{"id": 7}\n')
    lab.run(spec)

    assert (7, 5, 2) == (total(first).read, total(first).written, total(first).dead)
    assert [] == again
    assert [1, 2, 3, 4, 5, 7] == lab.ids()
    letters = lab.letters(name)
    assert {("a.jsonl", 2, "Malformed"), ("b.jsonl.gz", 1, "EmptyValue")} == {
        (letter.topic.rpartition("/")[2], letter.offset, letter.error) for letter in letters
    }


@pytest.mark.parametrize("is_put_back", [True, False], ids=["put back", "skipped"])
def test_lines_of_a_file_that_is_removed_before_they_were_read_are_not_passed_over(
    lab: Lab, *, is_put_back: bool
) -> None:
    folder = lab.folder / "incoming"
    folder.mkdir()
    file, away = folder / "a.jsonl", lab.folder / "away"
    file.write_bytes(b"".join(b'{"id": %d}\n' % number for number in range(6)))
    name = lab.kafka.topic("files")
    spec = lab.spec(name, source={"type": "files", "path": str(folder)}, batch={"max_events": 2})
    with dying("committed"):
        lab.run(spec)
    file.rename(away)
    (folder / "b.jsonl").write_bytes(b'{"id": 10}\n')

    for _ in range(2):
        with pytest.raises(RetentionPassed, match=r"a\.jsonl/0 offsets 2 to 5.*Put the files back"):
            lab.run(spec)
        with lab.runner(spec) as runner:
            repair.rebuild(runner)  # which knows of it, too
    if is_put_back:
        away.rename(file)
    else:
        with lab.runner(spec) as runner:
            repair.skip_gaps(runner)
    lab.run(spec)
    file.unlink(missing_ok=True)  # read to its end, it may go
    assert [] == lab.run(spec)

    assert [*range(6 if is_put_back else 2), 10] == lab.ids()
    found = [(gap.start, gap.end) for gap in gaps.read(lab.home(name).gaps)]
    assert ([] if is_put_back else [(2, 6)]) == found


def test_a_task_that_is_answered_by_another_cluster_than_the_driver_gives_no_row(lab: Lab) -> None:
    topic = lab.kafka.topic("stranger")
    lab.send_ids(topic, range(3))
    own = cluster_id(lab.kafka.admin())
    offset_range = OffsetRange(SourcePartition(topic, topics.describe(lab.kafka.admin(), topic).topic_id, 0), 0, 3)

    chunks = list(KafkaReader(lab.connection, own).chunks(offset_range))
    with pytest.raises(ClusterReplaced, match=f"another Kafka cluster has answered a task \\(its id is {own}\\)"):
        next(KafkaReader(lab.connection, "id-of-the-driver-s").chunks(offset_range))

    assert [3] == [batch.num_rows for batch, _ in chunks]
