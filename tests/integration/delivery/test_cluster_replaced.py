"""Another Kafka cluster behind the same address: no topic was deleted, and nothing of the past is let go of."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from penstock.broker.cluster import Cluster
from penstock.config.project import LocalCluster
from penstock.delivery import gaps
from penstock.driver.paths import PipelinePaths
from penstock.driver.runner import Runner
from penstock.errors import ClusterReplaced, PenstockError
from penstock.kafka.producer import Producer
from penstock.operate import repair
from penstock.pipeline.spec import PipelineSpec

from conftest import RunningKafka
from support.waiting import until


class BatchBegan(Exception):
    """A batch wants Spark: there is something to read."""


@contextmanager
def cluster(folder: Path, jar_folder: Path, port: int = 0) -> Iterator[RunningKafka]:
    running = Cluster(folder / "broker", jar_folder)
    try:
        running.up(LocalCluster(port=port))
        yield RunningKafka(running, folder)
    finally:
        running.down()


def opened(kafka: RunningKafka, folder: Path, *, any_cluster: bool = False) -> Runner:
    def no_spark() -> NoReturn:
        raise BatchBegan

    spec = PipelineSpec.model_validate(
        {
            "name": "patterned",
            "source": {"type": "kafka", "pattern": "(here|other)-.*"},
            "decode": {"type": "json", "schema": "id bigint"},
            "sinks": [{"type": "json", "path": str(folder / "json")}],
            "speed": "stream",
            "batch": {"max_wait": "1h"},
        }
    )
    return Runner(spec, kafka.connection, PipelinePaths(folder / "home"), no_spark, folder, any_cluster=any_cluster)


def test_another_cluster_behind_the_same_address_stops_a_driver_that_runs_and_every_start(
    jar_folder: Path, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "home" / "checkpoint" / "committed.json"
    failures: list[PenstockError] = []
    with cluster(tmp_path / "former", jar_folder) as former:
        topic = former.topic("here")
        with Producer(former.connection) as producer:
            producer.send(topic, b'{"id": 1}')
        driver = opened(former, tmp_path)

        def run() -> None:
            try:
                with driver:
                    driver.run(lambda _progress: None)
            except PenstockError as error:
                failures.append(error)

        running = threading.Thread(target=run)
        running.start()
        until(checkpoint.exists)
        known = checkpoint.read_bytes()
        port = int(former.connection.bootstrap_servers.rpartition(":")[2])
        former.cluster.down()
        with cluster(tmp_path / "latter", jar_folder, port) as latter:
            running.join(240)
            driver.stopping.set()
            running.join(240)

            with pytest.raises(ClusterReplaced), opened(latter, tmp_path):
                pass
            untouched = checkpoint.read_bytes()
            other = latter.topic("other")
            with opened(latter, tmp_path, any_cluster=True) as rebuilt:
                left = repair.forsaken(rebuilt)
                repair.rebuild(rebuilt)
            with opened(latter, tmp_path) as accepted:
                begun = accepted.begin()

    assert [ClusterReplaced] == [type(error) for error in failures]
    assert "penstock pipeline rebuild patterned" in str(failures[0])
    assert known == untouched
    assert [(topic, 0, 0, None, "another cluster", "rebuild")] == [
        (gap.topic, gap.partition, gap.start, gap.end, gap.reason, gap.by) for gap in left
    ]
    recorded = gaps.read(tmp_path / "home")
    assert left == [gap.model_copy(update={"at": before.at}) for gap, before in zip(recorded, left, strict=True)]
    assert [(other, 0)] == [(place.topic, place.partition) for place in begun.starts]
