"""Where combat events land besides the Delta table, and reading each of those afresh, past Penstock."""

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.reader import Reader
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.scenarios.judge import Landed
from penstock.lab.simulator.events import PARTITIONS
from penstock.sinks.tables import open_table

SinkKind = Literal["delta", "json", "kafka", "postgres"]
Read = Callable[[], Iterator[Landed]]

_TOPIC = "superhero.landed"
_TABLE = "combat"
_COORDINATES = ("_topic_id", "_partition", "_offset")


def delta_rows(path: Path) -> Iterator[Landed]:
    """Read a Delta table."""
    return map(_landed, open_table(path).to_pyarrow_table().to_pylist())


def add_sink(
    kind: Literal["json", "kafka", "postgres"], folder: Path, connection: Connection, stack: ExitStack
) -> tuple[dict[str, Any], Read]:
    """Prepare one more sink; return what the pipeline file says of it, and what reads it."""
    if kind == "json":
        path = folder / "tables" / "combat_json"
        return {"type": "json", "path": str(path)}, lambda: json_rows(path)
    if kind == "kafka":
        topics.create(Admin(connection), _TOPIC, TopicSpec(partitions=PARTITIONS))
        return {"type": "kafka", "topic": _TOPIC}, lambda: _kafka_rows(connection)
    return _postgres(stack)


def json_rows(path: Path) -> Iterator[Landed]:
    """Read files of JSON lines."""
    for file in sorted(path.glob("[!._]*.jsonl.gz")):
        with gzip.open(file) as lines:
            for line in lines:
                yield _landed(json.loads(line))


def _kafka_rows(connection: Connection) -> Iterator[Landed]:
    with Reader(connection, _TOPIC) as reader:
        for message in reader:
            listed: Any = message.headers() or ()
            # Where the record came from; what else is in the headers says nothing about the row.
            fields = {f"_{name.removeprefix('penstock.')}": value.decode() for name, value in listed}
            coordinates = {name: fields[name] for name in _COORDINATES}
            yield _landed({**json.loads(message.value() or b""), **coordinates})


def _postgres(stack: ExitStack) -> tuple[dict[str, Any], Read]:
    import psycopg
    from psycopg.rows import dict_row

    from penstock.lab.bench.throwaway import running
    from penstock.lab.bench.throwaway_postgres import RunningPostgres

    server = stack.enter_context(running(RunningPostgres))
    database = server.database("superhero").database

    def rows() -> Iterator[Landed]:
        with server.connect(database) as connection:
            cursor = psycopg.Cursor(connection, row_factory=dict_row)
            yield from map(_landed, cursor.execute(f"SELECT * FROM {_TABLE}"))  # noqa: S608 - a name of ours

    login = {"host": "127.0.0.1", "port": server.port, "database": database, "user": "penstock", "sslmode": "disable"}
    where = {**login, "password": f"file:{server.password_file}"}
    return {"type": "postgres", "server": where, "table": _TABLE}, rows


def _landed(row: dict[str, Any]) -> Landed:
    record_id = int(row["_partition"]), int(row["_offset"])
    return Landed(record_id, {name: value for name, value in row.items() if name not in _COORDINATES})
