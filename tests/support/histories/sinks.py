"""The sinks of a history: how each is written in the file, read afresh past Penstock, and dropped."""

import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

from confluent_kafka.admin import NewTopic
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from penstock.delivery.dead_letter import understand
from penstock.kafka.reader import read_all
from penstock.lab.bench.throwaway_postgres import RunningPostgres

from conftest import RunningKafka
from support.iceberg_driver import loaded
from support.iceberg_tables import iceberg_rows
from support.landing import headers
from support.waiting import until


@dataclass(frozen=True)
class Landed:
    """A row as a sink holds it: the record that it names, and what is in it."""

    topic_id: str
    partition: int
    offset: int
    data: tuple[Any, ...]


@dataclass(frozen=True)
class Letter:
    """A dead letter: the record that it names, for which sink (None: for all), its bytes, whether they are whole."""

    topic_id: str
    partition: int
    offset: int
    sink: str | None
    value: bytes | None
    is_whole: bool


@dataclass(frozen=True)
class SinkUnderTest:
    """See the module."""

    kind: str
    spec: dict[str, Any]
    rows: Callable[[], list[Landed]]
    drop: Callable[[], None]
    truncate: Callable[[], None] | None = None
    alter: Callable[[], None] | None = None


def make_sink(kind: str, kafka: RunningKafka, postgres: RunningPostgres, folder: Path) -> SinkUnderTest:
    """Make one sink of a kind."""
    if kind == "delta":
        return _delta(folder)
    if kind == "json":
        return _json(folder)
    if kind == "kafka":
        return _kafka(kafka)
    if kind == "iceberg":
        return _iceberg(folder)
    return _postgres(postgres)


def _row(data: dict[str, Any], **coordinates: Any) -> Landed:
    found = {**data, **coordinates}
    values = (found["n"], found["sha"], found["payload"])
    return Landed(found["_topic_id"], int(found["_partition"]), int(found["_offset"]), values)


def _delta(folder: Path) -> SinkUnderTest:
    def rows() -> list[Landed]:
        try:
            return [_row(each) for each in DeltaTable(str(folder)).to_pyarrow_table().to_pylist()]
        except TableNotFoundError:
            return []

    def optimise() -> None:
        table = DeltaTable(str(folder))
        table.optimize.compact()
        table.create_checkpoint()

    return SinkUnderTest(
        "delta",
        {"type": "delta", "path": str(folder)},
        rows,
        lambda: shutil.rmtree(folder, ignore_errors=True),
        alter=optimise,
    )


def _iceberg(folder: Path) -> SinkUnderTest:
    def expire() -> None:
        table = loaded(folder)
        newest = table.metadata.current_snapshot_id
        old = [each.snapshot_id for each in table.snapshots() if each.snapshot_id != newest]
        table.maintenance.expire_snapshots().by_ids(old).commit()

    return SinkUnderTest(
        "iceberg",
        {"type": "iceberg", "path": str(folder)},
        lambda: [_row(each) for each in iceberg_rows(folder)],
        lambda: shutil.rmtree(folder, ignore_errors=True),
        alter=expire,
    )


def _json(folder: Path) -> SinkUnderTest:
    def rows() -> list[Landed]:
        found = []
        for path in sorted(folder.glob("[!._]*.jsonl.gz")):
            with gzip.open(path) as lines:
                found += [_row(json.loads(line)) for line in lines]
        return found

    return SinkUnderTest(
        "json", {"type": "json", "path": str(folder)}, rows, lambda: shutil.rmtree(folder, ignore_errors=True)
    )


def _kafka(kafka: RunningKafka) -> SinkUnderTest:
    topic = kafka.topic("landed", partitions=2)

    def rows() -> list[Landed]:
        found = []
        for message in read_all(kafka.connection, topic):
            told = {
                name.replace("penstock.", "_"): (value or b"").decode(errors="replace")
                for name, value in headers(message)
                if name.startswith("penstock.")
            }
            found.append(_row(json.loads(message.value() or b""), **told))
        return found

    def recreate() -> None:
        client = kafka.admin().client
        for future in client.delete_topics([topic]).values():
            future.result(30)
        until(lambda: topic not in kafka.admin().metadata("looking").topics)
        for future in client.create_topics([NewTopic(topic, 2, 1)]).values():
            future.result(30)
        until(lambda: topic in kafka.admin().metadata("looking").topics)

    return SinkUnderTest("kafka", {"type": "kafka", "topic": topic}, rows, recreate)


def _postgres(postgres: RunningPostgres) -> SinkUnderTest:
    server = postgres.database("history")

    def ask(statement: LiteralString) -> list[Any]:
        with postgres.connect(server.database) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def rows() -> list[Landed]:
        if ask("SELECT to_regclass('landed') IS NULL") == [(True,)]:
            return []
        return [
            Landed(topic_id, partition, offset, tuple(values))
            for topic_id, partition, offset, *values in ask(
                "SELECT _topic_id, _partition, _offset, n, sha, payload FROM landed"
            )
        ]

    def do(statement: LiteralString) -> Callable[[], None]:
        def done() -> None:
            ask(statement)

        return done

    login = {
        **server.model_dump(exclude_defaults=True),
        "password": f"file:{postgres.password_file}",
        "statement_timeout": "60s",  # a hang can be longer than that
    }
    return SinkUnderTest(
        "postgres",
        {"type": "postgres", "table": "landed", "server": login},
        rows,
        do("DROP TABLE IF EXISTS landed"),
        truncate=do("TRUNCATE landed"),
        alter=do("ALTER TABLE landed ADD COLUMN IF NOT EXISTS remark text"),
    )


def read_letters(kafka: RunningKafka, topic: str) -> list[Letter]:
    """Read the dead letters of a topic; one whose record was too large to keep says so."""
    found = []
    if topic not in kafka.admin().metadata("looking").topics:
        return []
    for message in read_all(kafka.connection, topic):
        letter = understand(message)
        if letter is not None:
            found.append(
                Letter(
                    letter.topic_id,
                    letter.partition,
                    letter.offset,
                    letter.sink,
                    message.value(),
                    is_whole=letter.stub is None,
                )
            )
    return found
