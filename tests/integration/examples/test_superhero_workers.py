"""The workers of the superhero example: pipelines on Spark, and the same logic behind Redis and RabbitMQ."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from deltalake import DeltaTable

from penstock.config.project import Project
from penstock.config.settings import Settings, cache_folder
from penstock.kafka.producer import Producer
from penstock.lab.bench.throwaway_rabbitmq import RunningRabbitMQ
from penstock.lab.bench.throwaway_redis import RunningRedis
from penstock.lab.scenarios.judge import judge_meta, judge_metrics, judge_podium
from penstock.lab.scenarios.sinks import json_rows
from penstock.lab.simulator.load import Records
from penstock.lab.simulator.simulation import SimulationOptions, SimulationResult, simulate
from penstock.lab.simulator.truth import read_truth
from penstock.operate import driver
from penstock.pipeline.load import load
from penstock.transports import Outgoing, Transport, open_transport

from conftest import RunningKafka
from support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[3] / "examples" / "superhero"
LITTLE_DATA = {"spark.sql.shuffle.partitions": "1", "spark.databricks.delta.snapshotPartitions": "1"}
WORKERS = ("combat", "game_meta", "game_podium", "game_metrics", "message_flow", "raw")


def play(truth: Path, games: int, *, seed: int = 1) -> tuple[Records, SimulationResult]:
    """Play games; give every record, and what the simulator says of them."""
    records: Records = []
    options = SimulationOptions(players=10, games=games, seed=seed, speed="max", malformed=0.02, truth=truth)
    return records, simulate(options, records.extend)


def run_worker(name: str, folder: Path, topic: str, kafka: RunningKafka) -> None:
    """Run a worker's pipeline over a topic of the test's own."""
    document = yaml.safe_load((EXAMPLE / f"{name}.yaml").read_text())
    if "topics" in document["source"]:
        document["source"]["topics"] = [topic]
    document["spark"] = LITTLE_DATA
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(document))
    mine = Settings(folder, cache_folder(), None, Project(), external=kafka.connection, user=None)
    driver.run(load(file), mine, file, show=lambda _status: None)


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = DeltaTable(str(folder / "tables" / table)).to_pyarrow_table().to_pylist()
    return listed


@pytest.fixture
def little_data(spark: "SparkSession") -> Iterator[None]:
    """Put the settings of the shared Spark back afterwards."""
    before = {name: spark.conf.get(name, None) for name in LITTLE_DATA}
    yield
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


@pytest.mark.usefixtures("little_data")
def test_all_six_workers_come_to_the_truth_also_when_half_of_the_games_come_later(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    topic = kafka.topic("combat", partitions=4)
    for path in EXAMPLE.glob("*.py"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    records, played = play(tmp_path / "truth.jsonl", 16)

    # Cut in the middle of games: the podium has to keep what it knows of them until it runs again.
    half, known = len(records) // 2, []
    for part, workers in ((records[:half], ("combat", "game_podium")), (records[half:], WORKERS)):
        with Producer(kafka.connection) as producer:
            producer.send_many(topic, part)
        for name in workers:
            run_worker(name, tmp_path, topic, kafka)
        known.append(len(rows(tmp_path, "game_podium")))

    truth = read_truth(played.truth)
    flows = rows(tmp_path, "message_flow")
    assert 0 < known[0] < known[1]
    assert [] == judge_podium(rows(tmp_path, "game_podium"), truth)
    assert [] == judge_meta(rows(tmp_path, "game_meta"), truth)
    assert [] == judge_metrics(rows(tmp_path, "game_metrics"), truth)
    assert (played.events, played.events) == (len(rows(tmp_path, "combat")), len(flows))
    assert played.records == len(list(json_rows(tmp_path / "tables" / "raw")))
    assert all(flow["log_to_broker_ms"] >= 0 <= flow["broker_to_table_ms"] for flow in flows)


def send(transport: Transport, topic: str, records: Sequence[dict[str, Any]]) -> None:
    transport.send([Outgoing(topic, record["value"], record["key"]) for record in records])


def start_worker(address: str, topic: str, out: Path, *options: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, str(EXAMPLE / "worker.py"), address, "--topic", topic, "--out", str(out), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def written(out: Path) -> int:
    return len(out.read_bytes().splitlines()) if out.exists() else 0


@pytest.fixture(params=[pytest.param("redis_server", marks=pytest.mark.soak), "rabbitmq"])
def address(request: pytest.FixtureRequest) -> str:
    server: RunningRedis | RunningRabbitMQ = request.getfixturevalue(request.param)
    return server.address if isinstance(server, RunningRabbitMQ) else server.address()


def test_the_same_logic_behind_redis_and_rabbitmq_comes_to_the_truth_after_a_kill(address: str, tmp_path: Path) -> None:
    topic, out = f"combat-{tmp_path.name}", tmp_path / "podium.jsonl"
    records, played = play(tmp_path / "truth.jsonl", 12, seed=2)
    transport = open_transport(address)
    transport.subscribe(topic, "podium").close()  # RabbitMQ keeps messages only for groups that are there
    first = start_worker(address, topic, out)
    try:
        send(transport, topic, records[: len(records) // 2])
        until(lambda: written(out) > 0)
    finally:
        first.kill()
        first.communicate()
    before = written(out)
    send(transport, topic, records[len(records) // 2 :])
    transport.close()

    second = start_worker(address, topic, out)
    try:
        until(lambda: written(out) >= len(read_truth(played.truth)))
    finally:
        second.terminate()
        said = second.communicate(timeout=240)

    found = [json.loads(line) for line in out.read_bytes().splitlines()]
    assert 0 < before < len(found)
    assert [] == judge_podium(found, read_truth(played.truth))
    assert (0, b"") == (second.returncode, said[1])


def test_a_worker_that_is_given_no_transport_says_so_in_one_line(tmp_path: Path) -> None:
    worker = start_worker("carrier-pigeon://roof", "combat", tmp_path / "podium.jsonl")

    said = worker.communicate(timeout=240)[1].decode()

    assert 2 == worker.returncode
    assert said.startswith("error: ")
    assert 1 == len(said.splitlines())
