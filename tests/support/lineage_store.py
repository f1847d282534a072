"""Reads a lineage store back into facts, all of it, so that it can be compared with what its events say."""

import datetime
import functools
import uuid
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import Connection, Engine, Table, insert, select

from penstock.lineage.collected import Facts
from penstock.lineage.facts import (
    ColumnLineage,
    ColumnRelation,
    Dataset,
    DatasetSchema,
    DatasetTag,
    Facet,
    Input,
    IoKey,
    Job,
    JobDependency,
    JobTag,
    Location,
    Operation,
    Output,
    Run,
    Symlink,
    greater_job,
)
from penstock.lineage.keys import DatasetKey, JobKey, LocationKey, time_of
from penstock.lineage.store import tables
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.database import open_engine
from penstock.sinks.postgres_server import Server


def store_on(server: Server) -> dict[str, Any]:
    """Return the keys that name a store in a database."""
    return {
        "store": f"postgresql://{server.user}@{server.host}:{server.port}/{server.database}",
        "password": server.password,
        "sslmode": server.sslmode,
    }


def remove(path: Path) -> None:
    """Remove an SQLite store as a user would."""
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def stored(address: StoreAddress) -> Facts:
    """Return everything that a store holds; schemas and facets as JSON in one spelling."""
    engine = open_engine(address)
    try:
        return _read(engine)
    finally:
        engine.dispose()


def comparable(facts: Facts) -> Facts:
    """Return facts as a store has them: JSON in one spelling, and one run and job for each use of columns."""
    facts.schemas = {digest: _spelt(fields) for digest, fields in facts.schemas.items()}
    uses: dict[Any, list[ColumnLineage]] = {}
    for each in facts.column_lineage:
        uses.setdefault(each._replace(run_id=uuid.UUID(int=0), job=JobKey(LocationKey("", ""), "")), []).append(each)
    facts.column_lineage = {
        use._replace(
            run_id=max(each.run_id for each in said), job=functools.reduce(greater_job, [each.job for each in said])
        )
        for use, said in uses.items()
    }
    return facts


def _spelt(value: bytes | str) -> bytes:
    return orjson.dumps(orjson.loads(value), option=orjson.OPT_SORT_KEYS)


def _rows(connection: Connection, table: Table) -> list[Any]:
    return list(connection.execute(select(table)))


def _read(engine: Engine) -> Facts:
    facts = Facts()
    with engine.connect() as connection:
        locations = {each.id: LocationKey(each.type, each.name) for each in _rows(connection, tables.location)}
        urls: dict[int, set[str]] = {number: set() for number in locations}
        for each in _rows(connection, tables.location_address):
            urls[each.location_id].add(each.url)
        facts.locations = {key: Location(key, frozenset(urls[number])) for number, key in locations.items()}
        datasets = {
            each.id: DatasetKey(locations[each.location_id], each.name_key)
            for each in _rows(connection, tables.dataset)
        }
        jobs = {each.id: JobKey(locations[each.location_id], each.name_key) for each in _rows(connection, tables.job)}
        for each in _rows(connection, tables.dataset):
            facts.datasets[datasets[each.id]] = Dataset(datasets[each.id], each.name)
        for each in _rows(connection, tables.job):
            parent = None if each.parent_job_id is None else jobs[each.parent_job_id]
            facts.jobs[jobs[each.id]] = Job(jobs[each.id], each.name, each.type, parent, each.parent_event_at)
        _read_links(connection, facts, datasets, jobs)
        _read_history(connection, facts, datasets, jobs)
    return facts


def _read_links(connection: Connection, facts: Facts, datasets: dict[int, DatasetKey], jobs: dict[int, JobKey]) -> None:
    for each in _rows(connection, tables.dataset_symlink):
        facts.symlinks.add(Symlink(datasets[each.from_dataset_id], datasets[each.to_dataset_id], each.type))
    for each in _rows(connection, tables.job_dependency):
        facts.dependencies.add(JobDependency(jobs[each.from_job_id], jobs[each.to_job_id], each.type))
    for each in _rows(connection, tables.schema):
        facts.schemas[each.digest] = _spelt(orjson.dumps(each.fields))
    for each in _rows(connection, tables.dataset_schema):
        dataset = datasets[each.dataset_id]
        seen = DatasetSchema(dataset, each.schema_digest, each.first_seen_at, each.last_seen_at)
        facts.dataset_schemas[dataset, each.schema_digest] = seen
    names = {each.id: each.name for each in _rows(connection, tables.tag)}
    values = {each.id: (names[each.tag_id], each.value) for each in _rows(connection, tables.tag_value)}
    for each in _rows(connection, tables.job_tag):
        facts.job_tags.add(JobTag(jobs[each.job_id], *values[each.tag_value_id]))
    for each in _rows(connection, tables.dataset_tag):
        facts.dataset_tags.add(DatasetTag(datasets[each.dataset_id], *values[each.tag_value_id]))
    facts.users = {each.name for each in _rows(connection, tables.user)}
    for each in _rows(connection, tables.run_facet):
        facts.run_facets[each.run_id, each.name] = _facet(each.seen_at, each.value)
    for each in _rows(connection, tables.job_facet):
        facts.job_facets[jobs[each.job_id], each.name] = _facet(each.seen_at, each.value)
    for each in _rows(connection, tables.dataset_facet):
        facts.dataset_facets[datasets[each.dataset_id], each.name] = _facet(each.seen_at, each.value)


def _facet(seen_at: datetime.datetime, value: str) -> Facet:
    return Facet(seen_at, value.encode())


def _read_history(
    connection: Connection, facts: Facts, datasets: dict[int, DatasetKey], jobs: dict[int, JobKey]
) -> None:
    for each in _rows(connection, tables.run):
        said = each._asdict()
        said["job"] = None if said["job_id"] is None else jobs[said["job_id"]]
        said["parent_id"] = said.pop("parent_run_id")
        del said["job_id"]
        assert each.id not in facts.runs, f"run {each.id} is there twice"
        facts.runs[each.id] = Run(**said)
    for each in _rows(connection, tables.operation):
        said = each._asdict()
        said["sql"] = said.pop("sql_query")
        assert each.id not in facts.operations, f"operation {each.id} is there twice"
        facts.operations[each.id] = Operation(**said)
    for each in _rows(connection, tables.input_):
        key, said = _io(each, datasets, jobs)
        facts.inputs[key] = Input(key=key, **said)
    for each in _rows(connection, tables.output):
        key, said = _io(each, datasets, jobs)
        facts.outputs[key] = Output(key=key, kinds=each.type, **said)
    for each in _rows(connection, tables.column_lineage):
        lineage = ColumnLineage(
            each.operation_id,
            each.run_id,
            jobs[each.job_id],
            datasets[each.source_dataset_id],
            datasets[each.target_dataset_id],
            each.created_at,
            each.fingerprint,
        )
        facts.column_lineage.add(lineage)
    relations: dict[Any, list[ColumnRelation]] = {}
    for each in sorted(_rows(connection, tables.column_relation), key=lambda each: each.number):
        relation = ColumnRelation(each.source_column, each.target_column, each.type)
        relations.setdefault(each.fingerprint, []).append(relation)
    facts.column_relations = {fingerprint: tuple(those) for fingerprint, those in relations.items()}


def _io(row: Any, datasets: dict[int, DatasetKey], jobs: dict[int, JobKey]) -> tuple[IoKey, dict[str, Any]]:
    key = IoKey(row.operation_id, datasets[row.dataset_id], row.created_at)
    assert row.is_later_hour == (row.created_at != time_of(row.operation_id)), key
    counts = {"num_bytes": row.num_bytes, "num_rows": row.num_rows, "num_files": row.num_files}
    return key, {"run_id": row.run_id, "job": jobs[row.job_id], "schema": row.schema_digest, **counts}


def add_run(
    address: StoreAddress,
    created_at: datetime.datetime,
    ended_at: datetime.datetime | None,
    *,
    status: int | None = None,
    parent: uuid.UUID | None = None,
    facet: str | None = None,
) -> uuid.UUID:
    """Put a run into a store, past the sink, and return its id."""
    id_ = uuid.uuid4()
    status = status if status is not None else int(ended_at is not None)
    values = {"id": id_, "created_at": created_at, "ended_at": ended_at, "status": status, "parent_run_id": parent}
    _insert(address, tables.run, values)
    if facet is not None:
        _insert(address, tables.run_facet, {"run_id": id_, "name": "facet", "value": facet, "seen_at": created_at})
    return id_


def add_operation(address: StoreAddress, run_id: uuid.UUID, created_at: datetime.datetime) -> uuid.UUID:
    """Put an operation that never said its end into a store, and return its id."""
    id_ = uuid.uuid4()
    _insert(
        address, tables.operation, {"id": id_, "run_id": run_id, "created_at": created_at, "status": 0, "name": "o"}
    )
    return id_


def add_io(address: StoreAddress, run_id: uuid.UUID, created_at: datetime.datetime) -> uuid.UUID:
    """Put an input of some operation of a run into a store, and return the operation's id."""
    id_ = uuid.uuid4()
    values = {"operation_id": id_, "run_id": run_id, "created_at": created_at, "dataset_id": 1, "job_id": 1}
    _insert(address, tables.input_, values)
    return id_


def _insert(address: StoreAddress, table: Table, values: dict[str, Any]) -> None:
    engine = open_engine(address)
    with engine.begin() as connection:
        connection.execute(insert(table).values(values))
    engine.dispose()


def ids_of(address: StoreAddress, table: str, column: str = "id") -> set[uuid.UUID]:
    """Return the ids in a table."""
    engine = open_engine(address)
    with engine.connect() as connection:
        found = set(connection.execute(select(tables.metadata.tables[table].c[column])).scalars())
    engine.dispose()
    return found


def differences(expected: Facts, found: Facts) -> dict[str, Any]:
    """Return what is not the same, by collection and key: (expected, found)."""
    said: dict[str, Any] = {}
    for name in expected.__struct_fields__:
        one, other = getattr(expected, name), getattr(found, name)
        if isinstance(one, dict):
            here = {
                key: (one.get(key), other.get(key))
                for key in one.keys() | other.keys()
                if one.get(key) != other.get(key)
            }
        else:
            here = {key: (key in one, key in other) for key in one ^ other}
        if here:
            said[name] = here
    return said
