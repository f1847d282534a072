"""Where a sink begins that has not written yet is decided once, whatever is killed before its first batch is done."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from confluent_kafka import Producer as Client

from penstock.delivery.dead_letters import SINK_NAME
from penstock.driver.paths import PipelinePaths
from penstock.driver.runner import Runner
from penstock.errors import PositionLost
from penstock.kafka.producer import Producer
from penstock.operate import repair
from penstock.pipeline.spec import PipelineSpec
from penstock.record.positions import OffsetRange
from penstock.sinks.sink import Staged

from conftest import RunningKafka
from support.pipelines import drive

if TYPE_CHECKING:
    from penstock.record.positions import SourcePartition

EVENTS = 10


class BatchBegan(Exception):
    """A batch wants Spark: there is something to read."""


class Begun:
    """A pipeline of which batches are only begun: Spark dies at once, like a driver that is killed."""

    def __init__(self, kafka: RunningKafka, folder: Path, *sinks: str) -> None:
        self.kafka, self.folder = kafka, folder
        self.topic = kafka.topic("begins")
        with Producer(kafka.connection) as producer:
            for _ in range(EVENTS):
                producer.send(self.topic, b'{"id": 1}')
        listed: list[dict[str, Any]] = [
            {"type": "json", "name": each, "path": str(folder / each)} if each != "console" else {"type": "console"}
            for each in sinks
        ]
        self.spec = PipelineSpec.model_validate(
            {
                "name": self.topic,
                "source": {"type": "kafka", "topics": [self.topic]},
                "decode": {"type": "json", "schema": "id bigint"},
                "sinks": listed,
                "speed": "scheduled",
            }
        )

    def runner(self) -> Runner:
        def no_spark() -> NoReturn:
            raise BatchBegan

        return Runner(self.spec, self.kafka.connection, PipelinePaths(self.folder / "home"), no_spark, self.folder)

    def run(self) -> None:
        with self.runner() as runner:
            drive(runner)

    def write(self, *sinks: str, is_done: bool = True) -> None:
        """Take the dead letters and these sinks to the end of the topic, and if it is done, the checkpoint too."""
        with self.runner() as runner:
            committed = runner.begin()
            runner.take_over()
            source_partition: SourcePartition = runner.available[0].source_partition
            progress = runner.sink_progress(committed, runner.available)
            runner.dead.commit(
                [], {source_partition: progress.expected[SINK_NAME][source_partition]}, {source_partition: EVENTS}
            )
            for sink in runner.sinks:
                if sink.name in sinks:
                    offset_range = OffsetRange(source_partition, 0, EVENTS)
                    sink.prepare(
                        [Staged(offset_range, 0, {})],
                        {source_partition: progress.expected[sink.name][source_partition]},
                    )
                    sink.commit()
            if is_done:
                positions = {name: {source_partition: EVENTS} for name in runner.stores}
                runner.checkpoint.commit(replace(committed, batch=1, sinks=positions))
                runner.lag_report.report({source_partition: EVENTS})

    def lose(self, sink: str) -> None:
        """Drop a sink's folder, and rebuild as the error says."""
        shutil.rmtree(self.folder / sink)
        with pytest.raises(PositionLost):
            self.run()
        with self.runner() as runner:
            repair.rebuild(runner)


def test_a_sink_that_is_filled_again_begins_at_the_start_after_a_kill_too(kafka: RunningKafka, tmp_path: Path) -> None:
    pipeline = Begun(kafka, tmp_path, "a", "b")
    pipeline.write("a", "b")
    pipeline.lose("b")

    for _ in range(3):
        with pytest.raises(BatchBegan):
            pipeline.run()


def test_two_kills_in_the_first_batch_of_all_leave_everything_to_read(kafka: RunningKafka, tmp_path: Path) -> None:
    pipeline = Begun(kafka, tmp_path, "a")
    pipeline.write(is_done=False)

    for _ in range(3):
        with pytest.raises(BatchBegan):
            pipeline.run()


def test_a_sink_is_filled_again_beside_one_that_keeps_no_positions(kafka: RunningKafka, tmp_path: Path) -> None:
    pipeline = Begun(kafka, tmp_path, "a", "console")
    pipeline.write("a")
    pipeline.lose("a")

    with pytest.raises(BatchBegan):
        pipeline.run()


def test_a_sink_that_is_added_later_begins_where_the_others_stand(kafka: RunningKafka, tmp_path: Path) -> None:
    pipeline = Begun(kafka, tmp_path, "a")
    pipeline.write("a")
    added = {"type": "json", "name": "b", "path": str(tmp_path / "b")}
    pipeline.spec = PipelineSpec.model_validate(
        {**pipeline.spec.model_dump(by_alias=True, mode="json"), "sinks": [pipeline.spec.sinks[0].model_dump(), added]}
    )

    pipeline.run()


@pytest.mark.parametrize("start", [str(EVENTS + 1), "2099-01-01T00:00"])
def test_a_pipeline_that_begins_inside_or_behind_an_open_transaction_waits_for_its_end(
    kafka: RunningKafka, tmp_path: Path, start: str
) -> None:
    pipeline = Begun(kafka, tmp_path, "a")
    source = pipeline.spec.source.model_copy(update={"start": start})
    pipeline.spec = pipeline.spec.model_copy(update={"source": source})
    client = Client({"bootstrap.servers": kafka.connection.bootstrap_servers, "transactional.id": pipeline.topic})
    client.init_transactions(30)
    client.begin_transaction()
    for _ in range(2):
        client.produce(pipeline.topic, b'{"id": 1}', partition=0)
    client.flush(30)

    pipeline.run()
    client.commit_transaction(30)
    with Producer(kafka.connection) as producer:
        producer.send(pipeline.topic, b'{"id": 1}')

    with pytest.raises(BatchBegan):
        pipeline.run()
