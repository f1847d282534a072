"""Services beside clusters of other shapes, and pipelines that ask the project's registry without naming it."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from penstock.config.services import ConnectService, Services
from penstock.kafka import topics
from penstock.services import control
from penstock.services.context import ServiceContext

from conftest import Cli, RunningKafka

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
PIPELINE = {
    "name": "orders",
    "source": {"topics": ["orders-by-project"]},
    "decode": {"type": "avro"},
    "sinks": [
        {"type": "delta", "path": "table"},
        {"type": "kafka", "topic": "orders-by-project-out", "key": "id", "encode": {"keys": True}},
    ],
    "speed": "scheduled",
}


def require(code: int, said: str) -> None:
    assert code == 0, said


def land(cli: Cli, folder: Path, *options: str) -> list[int]:
    """Send two records by a schema, and land them with a pipeline that names no registry."""
    (folder / "order.avsc").write_text(json.dumps(SCHEMA))
    (folder / "orders.yaml").write_text(json.dumps(PIPELINE))
    for arguments, stdin in (
        (["topic", "create", "orders-by-project"], ""),
        (["topic", "create", "orders-by-project-out"], ""),
        (["produce", "orders-by-project", "--schema", "order.avsc"], '{"id": 1}\n{"id": 2}\n'),
        (["pipeline", "check", "orders.yaml", "--online"], ""),
        (["pipeline", "run", "orders.yaml"], ""),
    ):
        done = cli(*options, *arguments, stdin=stdin)
        require(done.code, done.err)
    shown = cli(*options, "consume", "orders-by-project-out", "--decode", "--json")
    assert [1, 2] == [json.loads(line)["key"] for line in shown.out.splitlines()]
    return sorted(DeltaTable(str(folder / "table")).to_pyarrow_table().column("id").to_pylist())


@pytest.mark.soak
def test_with_somebody_elses_cluster_up_starts_the_registry_alone(
    kafka: RunningKafka, cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "penstock.yaml").write_text("services: {registry: {port: 0}}")
    external = ("--bootstrap", kafka.connection.bootstrap_servers)
    try:
        started = cli(*external, "up", "--json")
        running = cli(*external, "status", "--json")
        landed = land(cli, tmp_path, *external)
    finally:
        stopped = cli(*external, "down", "--json")

    assert (0, ["registry"]) == (started.code, list(started.json["services"]))
    assert (0, ["running"]) == (running.code, [each["state"] for each in running.json["services"]])
    assert [1, 2] == landed
    assert ([], ["registry"]) == (stopped.json["stopped"], stopped.json["services"])
    assert [] != topics.list_topics(kafka.admin())  # which runs on


@pytest.mark.soak
def test_on_a_secure_cluster_pipelines_have_the_registrys_login_and_ca(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text("cluster: {port: 0, secure: true}\nservices: {registry: {port: 0}}")
    try:
        started = cli("up", "--json")
        require(started.code, started.err)
        landed = land(cli, tmp_path)
    finally:
        cli("down")

    assert started.json["services"]["registry"].startswith("https://")
    assert [1, 2] == landed


@pytest.mark.soak
def test_topics_of_services_have_three_replicas_where_there_are_three_nodes(
    three_nodes: RunningKafka, jar_folder: Path
) -> None:
    context = ServiceContext(three_nodes.home, jar_folder, three_nodes.connection, nodes=3, secure=False)
    try:
        control.LocalServices(context).up(Services(connect=ConnectService(port=0)))
        found = {each.topic: each.replication for each in topics.list_topics(three_nodes.admin())}
    finally:
        control.stop(three_nodes.home, "connect")

    assert {"connect-configs": 3, "connect-offsets": 3, "connect-status": 3} == {
        name: count for name, count in found.items() if name.startswith("connect-")
    }
