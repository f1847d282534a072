"""A lineage store for tests of those who ask: rows are put where they belong, by hand."""

import datetime
import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import Engine, create_engine, event, insert, select

from penstock.lineage.keys import time_of
from penstock.lineage.store import tables

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
_COUNTS = {"num_bytes": None, "num_rows": None, "num_files": None}


def uuid7(at: datetime.datetime, number: int) -> UUID:
    """Return a UUIDv7 of a time, that no other number has."""
    ms = int(at.timestamp() * 1000)
    return UUID(int=(ms << 80) | (7 << 76) | (2 << 62) | number)


def sqlite_engine(folder: Path) -> Engine:
    """Make an empty store, one that no power cut has to spare."""
    engine = create_engine(f"sqlite:///{folder / 'lineage.db'}")

    @event.listens_for(engine, "connect")
    def be_quick(connection: Any, _: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA journal_mode = MEMORY")

    tables.metadata.create_all(engine)
    return engine


class Rows:
    """Puts things into a store."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._numbers = itertools.count(1)

    def put(self, table: Any, **values: Any) -> Any:
        with self.engine.begin() as connection:
            return connection.execute(insert(table).values(**values)).inserted_primary_key

    def location(self, type_: str = "kafka", name: str = "broker:9092", urls: Iterable[str] = ()) -> int:
        with self.engine.connect() as connection:
            of = tables.location.c
            found = connection.execute(select(of.id).where(of.type == type_, of.name == name)).scalar_one_or_none()
        if found is not None:
            return int(found)
        number = self.put(tables.location, type=type_, name=name)[0]
        for url in urls or [f"{type_}://{name}"]:
            self.put(tables.location_address, location_id=number, url=url)
        return int(number)

    def dataset(self, name: str, location: int | None = None) -> int:
        values = {"location_id": location or self.location(), "name": name, "name_key": name.lower()}
        return int(self.put(tables.dataset, **values)[0])

    def job(self, name: str, type_: str | None = "SPARK_APPLICATION", parent: int | None = None) -> int:
        location = self.location("yarn", "cluster")
        values = {"location_id": location, "name": name, "name_key": name.lower(), "type": type_}
        return int(self.put(tables.job, parent_job_id=parent, **values)[0])

    def run(self, job: int, at: datetime.datetime = NOON, run_id: UUID | None = None, **values: Any) -> UUID:
        run_id = run_id or uuid7(at, next(self._numbers))
        self.put(tables.run, **{"created_at": at, "id": run_id, "job_id": job, "status": 1, **values})
        return run_id

    def operation(self, run: UUID, at: datetime.datetime = NOON, number: UUID | None = None, **values: Any) -> UUID:
        number = number or uuid7(at, next(self._numbers))
        self.put(
            tables.operation, **{"created_at": at, "id": number, "run_id": run, "status": 1, "name": "o", **values}
        )
        return number

    def read(self, job: int, run: UUID, operation: UUID, dataset: int, at: datetime.datetime = NOON, **v: Any) -> None:
        keys = {"job_id": job, "run_id": run, "operation_id": operation, "dataset_id": dataset, "created_at": at}
        self.put(tables.input_, **{**_COUNTS, **keys, "is_later_hour": at != time_of(operation), **v})

    def written(
        self, job: int, run: UUID, operation: UUID, dataset: int, at: datetime.datetime = NOON, **v: Any
    ) -> None:
        keys = {"job_id": job, "run_id": run, "operation_id": operation, "dataset_id": dataset, "created_at": at}
        self.put(tables.output, **{**_COUNTS, "type": 1, **keys, "is_later_hour": at != time_of(operation), **v})

    def flow(
        self, job: int, source: int, target: int, at: datetime.datetime = NOON, **counts: Any
    ) -> tuple[UUID, UUID]:
        """Add a run with one operation that reads one dataset and writes another."""
        run = self.run(job, at)
        operation = self.operation(run, at)
        self.read(job, run, operation, source, at, **counts)
        self.written(job, run, operation, target, at, **counts)
        return run, operation

    def symlink(self, one: int, other: int) -> None:
        self.put(tables.dataset_symlink, from_dataset_id=one, to_dataset_id=other, type="METASTORE")
        self.put(tables.dataset_symlink, from_dataset_id=other, to_dataset_id=one, type="WAREHOUSE")
