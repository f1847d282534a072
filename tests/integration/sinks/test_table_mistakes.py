"""Tables that cannot be written to as the file says: one line, the documented exit code, and nothing lost."""

import socket
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import BadInput, Conflict, Transient
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.record.columns import COORDINATES, RESERVED
from penstock.sinks.delta_table import make_table

from conftest import Cli
from support.iceberg_driver import Driver, loaded
from support.iceberg_tables import iceberg_rows
from support.pipelines import Lab
from support.postgres_driver import ask

SCHEMA = pa.schema([("id", pa.string()), ("name", pa.string()), *(RESERVED.field(name) for name in COORDINATES)])


@pytest.fixture
def nobody() -> Iterator[int]:
    """Yield a port that is taken, and at which nobody answers: none else can get it meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def login(postgres: RunningPostgres, server: Any) -> dict[str, Any]:
    return {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}


def run(lab: Lab, cli: Cli, sink: dict[str, Any], *steps: dict[str, Any]) -> tuple[int, str]:
    """Run a pipeline of one event as users do; give the exit code and what it said last."""
    topic = lab.kafka.topic("mistakes")
    lab.send_ids(topic, [1])
    file = lab.written(topic, sinks=[sink], steps=list(steps))
    said = cli("pipeline", "run", file, "--once", home=lab.kafka.home)
    lines = said.err.strip().splitlines()
    assert "Traceback" not in said.err
    return said.code, lines[-1]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_partition_column_that_is_not_there_is_named_with_those_that_are(lab: Lab, cli: Cli, kind: str) -> None:
    path = lab.folder / "tables" / "orders"

    sink = {"type": kind, "path": str(path), "partition_by": ["days(at)"]}
    before = run(lab, cli, sink)
    code, line = run(lab, cli, sink, {"sql": "SELECT *, 1 AS one FROM events"})

    assert BadInput.exit_code == before[0]
    assert "sinks.0.partition_by: there is no column 'at'. There are id, name" in before[1]
    assert Conflict.exit_code == code
    assert "`partition_by` names the column 'at', which the pipeline does not write. Nothing was written." in line
    assert "Its columns are id, name, one" in line
    assert not path.exists()


@pytest.mark.parametrize("kind", ["delta", "iceberg", "postgres"])
def test_a_type_that_cannot_change_is_named_with_the_remedy_and_the_table_stays(
    lab: Lab, postgres: RunningPostgres, cli: Cli, kind: str
) -> None:
    path = lab.folder / "tables" / "orders"
    sink: dict[str, Any] = {"type": kind, "path": str(path)}
    if kind == "delta":
        make_table(path, SCHEMA, "orders")
    elif kind == "iceberg":
        Driver(path, SCHEMA).sink.close()
    else:
        server = postgres.database()
        ask(server, "CREATE TABLE orders (id date, name text, _topic_id text, _partition int, _offset bigint)")
        sink = {"type": kind, "table": "orders", "server": login(postgres, server)}

    code, line = run(lab, cli, sink)

    assert Conflict.exit_code == code
    assert "the column" in line
    assert "Nothing was written." in line
    assert ("in a step" in line, "id" in line, "int64" in line) == (True, True, True)


def test_a_table_of_the_other_format_at_the_path_is_named_and_stays(lab: Lab, cli: Cli) -> None:
    delta, iceberg = lab.folder / "tables" / "delta", lab.folder / "tables" / "iceberg"
    make_table(delta, SCHEMA, "orders")
    driver = Driver(iceberg)
    driver.write(1, 2)
    driver.sink.close()

    over_delta = run(lab, cli, {"type": "iceberg", "path": str(delta)})
    over_iceberg = run(lab, cli, {"type": "delta", "path": str(iceberg)})

    assert [Conflict.exit_code] * 2 == [over_delta[0], over_iceberg[0]]
    assert "holds a Delta table. Nothing was written. Write to another path, or say `type: delta`" in over_delta[1]
    assert "is an Iceberg table. Nothing was written. Write to another path, or say `type: iceberg`" in over_iceberg[1]
    assert [1, 2] == sorted(row["id"] for row in iceberg_rows(iceberg))
    assert 1 == len(loaded(iceberg).snapshots())


@pytest.mark.parametrize("url", ["http://127.0.0.1:{}", "postgresql://nobody@127.0.0.1:{}/catalog"])
def test_a_catalog_that_is_down_is_named_as_an_outage_and_nothing_is_made(
    lab: Lab, cli: Cli, nobody: int, url: str
) -> None:
    path = lab.folder / "tables" / "orders"
    url = url.format(nobody)

    code, line = run(lab, cli, {"type": "iceberg", "path": str(path), "catalog": {"url": url}})

    assert Transient.exit_code == code
    assert f"the Iceberg catalog {url} does not answer" in line
    assert "Nothing was written" in line
    assert not path.exists()
