"""Landed tables: columns, versions, files, first rows, and which record each row was made of."""

from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from penstock.console.asking import NEEDS, FromConsole
from penstock.console.service import Console
from penstock.errors import PenstockError
from penstock.kafka import topics
from penstock.operate.known_tables import known_table, known_tables
from penstock.record.columns import COORDINATES
from penstock.sinks.rows import plain_rows, readable
from penstock.sinks.table_folders import is_iceberg
from penstock.sinks.table_query import count_rows, rows_of
from penstock.sinks.tables import file_sizes, history, open_table

router = APIRouter(prefix="/tables", tags=["tables"])
Table = Annotated[str, Query(max_length=4096, description="The table's name, as the list has it.")]
Format = Literal["delta", "iceberg"]
_MOST_ROWS = 200
_COMMITS = 20


class Version(BaseModel, frozen=True):
    """One commit of a table."""

    version: str = Field(description="Version that it made; an Iceberg table's is the id of its snapshot.")
    at: str = Field(description="When, in UTC.")
    operation: str = Field(description="What it did.")


class TableSummary(BaseModel, frozen=True):
    """One line of the list of tables."""

    table: str = Field(description="Its folder, as it is named from the project's.")
    format: Format = Field(description="delta or iceberg.")
    pipelines: list[str] = Field(description="Pipelines of this project that write to it.")
    version: str | None = Field(description="The newest version; none if it cannot be read here.")
    at: str | None = Field(description="When that was committed, in UTC.")
    problem: str = Field("", description="Why it cannot be read.")


class Column(BaseModel, frozen=True):
    """A column of a table."""

    name: str = Field(description="Name.")
    type: str = Field(description="Type, in Arrow's words.")
    is_nullable: bool = Field(description="Whether a row may be without it.")


class TableDetail(BaseModel, frozen=True):
    """Everything about a table."""

    table: str = Field(description="Its name.")
    path: str = Field(description="Its folder on this machine.")
    format: Format = Field(description="delta or iceberg.")
    pipelines: list[str] = Field(description="Pipelines of this project that write to it.")
    version: str = Field(description="The version that was read.")
    rows: int = Field(description="Rows.")
    files: int = Field(description="Files with rows.")
    bytes: int = Field(description="Bytes of these files.")
    columns: list[Column] = Field(description="Its columns, in order.")
    versions: list[Version] = Field(description="The newest commits, the newest first.")


class Origin(BaseModel, frozen=True):
    """The record that a row was made of."""

    topic_id: str = Field(description="Id of its topic.")
    topic: str | None = Field(description="Its topic; none if that is not there any more, or Kafka is away.")
    partition: int = Field(description="Partition.")
    offset: int = Field(description="Offset.")


class TableRow(BaseModel, frozen=True):
    """A row, and where it came from."""

    values: dict[str, Any] = Field(description="The user's columns, as JSON has them.")
    origin: Origin | None = Field(description="None for results of many records.")


@router.get("", summary="List landed tables", dependencies=NEEDS["viewer"])
def list_tables(console: FromConsole) -> list[TableSummary]:
    """Return the tables in the project's folder and those that its pipelines write to, by name."""
    return [_summary(each.name, each.path, each.pipelines) for each in known_tables(console.settings)]


def _summary(name: str, path: Any, pipelines: list[str]) -> TableSummary:
    form = _format(path)
    try:
        newest = history(path, 1)
    except PenstockError as error:
        return TableSummary(table=name, format=form, pipelines=pipelines, version=None, at=None, problem=error.what)
    version, at = (str(newest[0].version), newest[0].at) if newest else (None, None)
    return TableSummary(table=name, format=form, pipelines=pipelines, version=version, at=at)


@router.get("/detail", summary="One table", dependencies=NEEDS["viewer"])
def get_table(console: FromConsole, table: Table) -> TableDetail:
    """Return columns, size and the newest versions of a table."""
    known = known_table(console.settings, table)
    opened = open_table(known.path)
    sizes = file_sizes(opened)
    schema = rows_of(opened, columns=[], where="", limit=0).schema
    return TableDetail(
        table=known.name,
        path=str(known.path),
        format=_format(known.path),
        pipelines=known.pipelines,
        version=str(opened.version()),
        rows=count_rows(opened),
        files=len(sizes),
        bytes=sum(sizes),
        # How DataFusion holds text in memory is no matter of the table.
        columns=[
            Column(name=each.name, type=str(each.type).replace("_view", ""), is_nullable=each.nullable)
            for each in schema
        ],
        versions=[
            Version(version=str(each.version), at=each.at, operation=each.operation)
            for each in history(known.path, _COMMITS)
        ],
    )


@router.get("/rows", summary="Some rows of a table", dependencies=NEEDS["viewer"])
def get_rows(
    console: FromConsole,
    table: Table,
    version: Annotated[str, Query(max_length=64, description="A version or a time; the newest if left out.")] = "",
    count: Annotated[int, Query(ge=1, le=_MOST_ROWS, description="How many at most.")] = 50,
) -> list[TableRow]:
    """Return rows, each with the record that it was made of."""
    opened = open_table(known_table(console.settings, table).path, version)
    found = rows_of(opened, columns=[], where="", limit=count)
    rows = [row for batch in found.to_batches() for row in plain_rows(readable(batch))]
    names = _topic_names(console) if any(COORDINATES[0] in row for row in rows) else {}
    return [_row(each, names) for each in rows]


def _row(row: dict[str, Any], names: dict[str, str]) -> TableRow:
    topic_id, partition, offset = (row.get(name) for name in COORDINATES)
    origin = None
    if topic_id is not None and partition is not None and offset is not None:
        origin = Origin(topic_id=topic_id, topic=names.get(topic_id), partition=partition, offset=offset)
    return TableRow(values={name: value for name, value in row.items() if name not in COORDINATES}, origin=origin)


def _topic_names(console: Console) -> dict[str, str]:
    """Return the names of topics by their ids; none while Kafka is away, for rows can be looked at all the same."""
    with suppress(PenstockError):
        admin = console.admin()
        known = topics.identify(admin, [each.topic for each in topics.list_topics(admin)])
        return {topic_id: name for name, (topic_id, _) in known.items()}
    return {}


def _format(path: Any) -> Format:
    return "iceberg" if is_iceberg(path) else "delta"
