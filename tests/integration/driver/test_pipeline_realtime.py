"""Real time: record by record from Kafka to Kafka, at least once, with what a crash repeats counted."""

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from penstock.driver.paths import PipelinePaths, Progress
from penstock.driver.realtime import RealtimeRunner
from penstock.driver.repeats import count_sent
from penstock.errors import BadInput, CheckpointLost, ClusterReplaced, TopicRecreated
from penstock.kafka import topics
from penstock.kafka.producer import Producer
from penstock.kafka.reader import read_all
from penstock.kafka.topic_spec import TopicSpec
from penstock.operate import history
from penstock.pipeline.spec import PipelineSpec
from penstock.record.available_range import AvailableRange
from penstock.record.formats import KAFKA_RECORD
from penstock.record.positions import SourcePartition

from support.drivers import start_driver
from support.pipelines import Lab
from support.waiting import until

SQL = "SELECT id, name, 100 / id AS share FROM events"
RULE = {"name": "named", "that": "name <> 'nobody'", "otherwise": "dead_letter"}


def document(lab: Lab, topic: str, out: str, **parts: Any) -> dict[str, Any]:
    given = {"speed": "realtime", "sinks": [{"type": "kafka", "topic": out}], "realtime": {"commit_every": "5s"}}
    return lab.document(topic, **{**given, **parts})


def runner(lab: Lab, spec: PipelineSpec) -> RealtimeRunner:
    return RealtimeRunner(spec, lab.connection, PipelinePaths(lab.folder / "homes" / spec.name), lambda: lab.spark)


@contextmanager
def running(lab: Lab, spec: PipelineSpec) -> Iterator[list[Progress]]:
    """Run a pipeline in a thread for as long as the block lasts."""
    heard: list[Progress] = []
    with runner(lab, spec) as opened:
        thread = threading.Thread(target=opened.run, args=(heard.append,))
        thread.start()
        yield heard
        opened.stopping.set()
        thread.join(240)
        assert not thread.is_alive()


def read(heard: list[Progress]) -> int:
    """Count the records of batches that are committed."""
    return sum(each.report.read for each in heard if each.report is not None)


def ids(lab: Lab, topic: str) -> list[int]:
    return sorted(orjson.loads(message.value() or b"")["id"] for message in read_all(lab.connection, topic))


def test_records_pass_one_by_one_what_fails_is_a_dead_letter_and_a_new_run_goes_on(lab: Lab) -> None:
    topic, out = lab.kafka.topic("realtime", partitions=2), lab.kafka.topic("realtime-out")
    spec = PipelineSpec.model_validate(document(lab, topic, out, steps=[{"sql": SQL}], expect=[RULE]))

    with running(lab, spec) as heard:
        lab.send(topic, {"id": 4, "name": "four"}, b"{", {"id": 0, "name": "zero"}, {"id": 1, "name": "nobody"})
        lab.send(topic, {"id": 5, "name": "five"}, {"name": "no id"}, b"", None, partition=1)
        until(lambda: [4, 5] == ids(lab, out))
        until(lambda: 8 == read(heard))
    lab.send(topic, {"id": 10, "name": "ten"})
    with running(lab, spec) as later:
        until(lambda: 10 in ids(lab, out))
        until(lambda: 1 == read(later))

    assert [4, 5, 10] == ids(lab, out)
    assert b'{"id":4,"name":"four","share":25.0}' in [each.value() for each in read_all(lab.connection, out)]
    assert sorted(
        ["Malformed", "SqlFailed", "ExpectationFailed", "SchemaMismatch", "Malformed", "Tombstone"]
    ) == sorted(letter.error for letter in lab.letters(topic))
    assert 0 == sum(each.repeated for each in later)
    assert [0, 0] == [heard[-1].lag, later[-1].lag]


def test_what_a_crash_repeats_is_counted_nothing_is_lost_and_ctrl_c_is_a_stop(lab: Lab, tmp_path: Path) -> None:
    topic, out = lab.kafka.topic("crash", partitions=2), lab.kafka.topic("crash-out")
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump(document(lab, topic, out, realtime={"commit_every": "60s"})))
    lab.send_ids(topic, range(300))

    first = start_driver(lab.kafka.home, file, tmp_path / "first.log")
    first.reach(lambda: len(ids(lab, out)) >= 200)
    first.kill()
    before = len(ids(lab, out))
    lab.send_ids(topic, range(300, 400), partition=1)
    second = start_driver(lab.kafka.home, file, tmp_path / "second.log")
    second.reach(lambda: len(ids(lab, out)) >= 400 + before)
    os.killpg(second.process.pid, signal.SIGINT)  # as a terminal does at Ctrl-C: Spark's JVM hears of it, too
    code = second.wait()
    found = ids(lab, out)
    states = [each.state for each in history.runs(lab.kafka.home, topic, 5)]

    assert 0 == code, second.said
    assert ["stopped", "running"] == states  # the first one had no time to say how it ended
    assert set(range(400)) == set(found)
    assert before == len(found) - 400
    assert f"{before:,} records sent twice" in second.said


def test_a_start_that_failed_starts_again_where_it_was_to_begin_and_so_does_a_rebuild(lab: Lab) -> None:
    topic, out = lab.kafka.topic("late", partitions=2), lab.kafka.topic("late-out")
    source = {"type": "kafka", "topics": [topic], "start": "latest"}
    # Nothing is committed meanwhile: a rebuild would go on behind it.
    spec = PipelineSpec.model_validate(document(lab, topic, out, source=source, realtime={"commit_every": "60s"}))
    lab.send_ids(topic, range(5))
    with runner(lab, spec) as opened:
        opened.begin()  # and then the driver is killed, or Spark has too few cores
    lab.send_ids(topic, [10, 11])

    with running(lab, spec):
        until(lambda: [10, 11] == ids(lab, out))
    with runner(lab, spec) as opened:
        opened.rebuild()
    with running(lab, spec):
        until(lambda: [10, 10, 11, 11] == ids(lab, out))


def test_a_recreated_topic_and_a_lost_checkpoint_stop_it_until_somebody_says_so(lab: Lab) -> None:
    topic, out = lab.kafka.topic("again"), lab.kafka.topic("again-out")
    spec = PipelineSpec.model_validate(document(lab, topic, out))
    lab.send_ids(topic, [1])
    with running(lab, spec):
        until(lambda: [1] == ids(lab, out))
    shutil.rmtree(lab.folder / "homes" / spec.name / "checkpoint" / "spark")

    with runner(lab, spec) as opened, pytest.raises(CheckpointLost, match="penstock pipeline rebuild"):
        opened.begin()
    with runner(lab, spec) as opened:
        opened.rebuild()
        opened.begin()
    topics.delete(lab.kafka.admin(), topic)
    topics.create(lab.kafka.admin(), topic, TopicSpec(partitions=1))
    with runner(lab, spec) as opened, pytest.raises(TopicRecreated, match="penstock pipeline rebuild"):
        opened.begin()


def test_a_checkpoint_that_is_gone_as_a_whole_is_noticed_and_a_rebuild_goes_on_at_the_reported_lag(lab: Lab) -> None:
    topic, out = lab.kafka.topic("gone"), lab.kafka.topic("gone-out")
    source = {"type": "kafka", "topics": [topic], "start": "latest"}
    spec = PipelineSpec.model_validate(document(lab, topic, out, source=source))
    with runner(lab, spec) as opened:
        opened.begin()
    lab.send_ids(topic, [1, 2])
    shutil.rmtree(lab.folder / "homes" / spec.name / "checkpoint")

    with runner(lab, spec) as opened, pytest.raises(CheckpointLost, match="its lag has been reported before"):
        opened.begin()
    with runner(lab, spec) as opened:
        opened.rebuild()
    with running(lab, spec) as heard:
        until(lambda: [1, 2] == ids(lab, out))
        until(lambda: 2 == read(heard))
    lab.send_ids(topic, [3])
    shutil.rmtree(lab.folder / "homes" / spec.name / "checkpoint")
    with runner(lab, spec) as opened:
        opened.rebuild()
        begun = opened._begun

    assert {topic: {"0": 2}} == begun.starts


def test_another_cluster_behind_the_same_address_is_refused_and_nothing_of_the_checkpoint_changes(lab: Lab) -> None:
    topic, out = lab.kafka.topic("moved"), lab.kafka.topic("moved-out")
    spec = PipelineSpec.model_validate(document(lab, topic, out))
    metadata = lab.folder / "homes" / spec.name / "checkpoint" / "metadata.json"
    with runner(lab, spec) as opened:
        opened.begin()
    former = {**orjson.loads(metadata.read_bytes()), "cluster_id": "former"}
    metadata.write_bytes(orjson.dumps(former))

    with runner(lab, spec) as opened, pytest.raises(ClusterReplaced, match="penstock pipeline rebuild"):
        opened.begin()

    assert former == orjson.loads(metadata.read_bytes())


def test_partitions_beyond_the_cores_that_come_while_it_runs_stop_it(lab: Lab) -> None:
    topic, out = lab.kafka.topic("grown"), lab.kafka.topic("grown-out")
    spec = PipelineSpec.model_validate(document(lab, topic, out))
    lab.send_ids(topic, [1])

    with ThreadPoolExecutor(1) as pool, runner(lab, spec) as opened:
        ended = pool.submit(opened.run, lambda _progress: None)
        until(lambda: [1] == ids(lab, out))
        topics.add_partitions(lab.kafka.admin(), topic, 3)
        error = ended.exception(240)

    assert isinstance(error, BadInput)
    assert "each of the 3 partitions needs a core of its own, and there are 2" in str(error)


def test_a_record_that_two_crashes_have_sent_comes_once_more_and_is_counted_once(lab: Lab) -> None:
    out = lab.kafka.topic("sent")
    with Producer(lab.connection) as producer:
        for offset in [3, 4, 7, 3, 4, 7, 9]:
            headers = {"topic_id": "id", "partition": "1", "offset": str(offset), "format": str(KAFKA_RECORD)}
            producer.send(out, b"", headers={f"penstock.{name}": value for name, value in headers.items()})
        producer.send(out, b"somebody else's")

    available_range = AvailableRange(SourcePartition("source", "id", 1), 0, 10)
    assert 3 == count_sent(lab.connection, out, [available_range], {"source": {"1": 4}}, 0)


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param({"offset": str(10**15)}, id="offset beyond the source"),
        pytest.param({"offset": "9" * 5000}, id="offset beyond any number"),
        pytest.param({"offset": "many"}, id="offset that is not a number"),
        pytest.param({"offset": None}, id="offset without a value"),
        pytest.param({"partition": "7"}, id="partition that there is not"),
        pytest.param({"topic_id": b"\xff"}, id="topic id that is not text"),
    ],
)
def test_forged_coordinates_in_the_sink_are_not_counted_and_cost_nothing(lab: Lab, forged: dict[str, Any]) -> None:
    out = lab.kafka.topic("forged")
    with Producer(lab.connection) as producer:
        for headers in ({}, forged):
            told = {"topic_id": "id", "partition": "0", "offset": "5", "format": str(KAFKA_RECORD), **headers}
            producer.send(out, b"", headers={f"penstock.{name}": value for name, value in told.items()})

    assert 1 == count_sent(lab.connection, out, [AvailableRange(SourcePartition("source", "id", 0), 0, 10)], {}, 0)


def test_more_partitions_than_cores_are_refused(lab: Lab) -> None:
    topic, out = lab.kafka.topic("wide", partitions=5), lab.kafka.topic("wide-out")
    spec = PipelineSpec.model_validate(document(lab, topic, out))

    with runner(lab, spec) as opened, pytest.raises(BadInput, match="each of the 5 partitions needs a core"):
        opened.run(lambda _progress: None)
