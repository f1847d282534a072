"""A search over everything that has a name, and what else the store holds: facets, batches, positions."""

import datetime
from typing import Any

import msgspec
import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    String,
    Table,
    and_,
    cast,
    func,
    literal,
    null,
    select,
    union_all,
)

from penstock.lineage.query.sets import among
from penstock.lineage.query.window import Window, horizon
from penstock.lineage.shapes.catalogue import Facet
from penstock.lineage.shapes.page import Page
from penstock.lineage.shapes.parameters import BatchesQuery, FacetsQuery, SearchParameters
from penstock.lineage.shapes.search import Batch, SearchResult, WriterPosition
from penstock.lineage.store import tables

BATCH_FACET = "penstock_batch"
"""The run facet in which our own pipelines say which batch it was, and which offsets it read."""


class _Offsets(msgspec.Struct, rename="camel", omit_defaults=True):
    topic: str
    partition: int
    start: int
    end: int
    topic_id: str | None = None


class _Batch(msgspec.Struct):
    batch: int | None = None
    offsets: list[_Offsets] = []


_read_batch = msgspec.json.Decoder(_Batch).decode


def search(connection: Connection, query: SearchParameters) -> Page[SearchResult]:
    """Return a page of what has all the words in its name; the shortest is the closest to what was asked."""
    words = query.search_query.lower().split()
    location, dataset, job = tables.location.c, tables.dataset.c, tables.job.c
    where = location.type + "://" + location.name
    dataset_source = tables.dataset.join(tables.location, location.id == dataset.location_id)
    job_source = tables.job.join(tables.location, location.id == job.location_id)
    run_source = tables.run.join(tables.job, job.id == tables.run.c.job_id, isouter=True)
    parts = {
        "DATASET": _part("DATASET", dataset_source, dataset.id, dataset.name, where, words, dataset.name_key),
        "JOB": _part("JOB", job_source, job.id, job.name, where, words, job.name_key),
        "RUN": _part("RUN", run_source, tables.run.c.id, tables.run.c.external_id, job.name, words),
        "LOCATION": _part("LOCATION", tables.location, location.id, location.name, location.type, words),
        "TAG": _part("TAG", tables.tag, tables.tag.c.id, tables.tag.c.name, null(), words),
        "USER": _part("USER", tables.user, tables.user.c.id, tables.user.c.name, null(), words),
    }
    wanted = [part for kind, part in parts.items() if not query.kind or kind in query.kind]
    found = union_all(*wanted).subquery()
    total = connection.execute(select(func.count()).select_from(found)).scalar_one()
    rows = connection.execute(
        select(found)
        .order_by(func.length(found.c.name), found.c.name, found.c.kind, found.c.id)
        .limit(query.page_size)
        .offset((query.page - 1) * query.page_size)
    )
    items = [
        SearchResult(
            kind=row.kind,
            id=_uuid_text(row.id) if row.kind == "RUN" else row.id,
            name=row.name,
            context=row.context,
        )
        for row in rows
    ]
    return Page.of(items, page=query.page, page_size=query.page_size, total_count=total)


def _part(
    kind: str,
    source: FromClause,
    number: ColumnElement[Any],
    name: ColumnElement[Any],
    context: ColumnElement[Any],
    words: list[str],
    key: ColumnElement[Any] | None = None,
) -> Select[str, str, str, str]:
    """Return what has all the words in its name; `key` is the name in lower case, where the store has that."""
    lowered = func.lower(name) if key is None else key
    conditions = [lowered.contains(word, autoescape=True) for word in words]
    if kind == "RUN":
        conditions = [name.is_not(None), *conditions]
    return (
        select(
            literal(kind, String).label("kind"),
            cast(number, String).label("id"),
            cast(name, String).label("name"),
            cast(context, String).label("context"),
        )
        .select_from(source)
        .where(and_(*conditions))
    )


def _uuid_text(text: str) -> str:
    """Return a UUID with its dashes, which SQLite keeps without."""
    plain = text.replace("-", "")
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))


def facets(connection: Connection, query: FacetsQuery) -> Page[Facet]:
    """Return a page of facets that nobody knows, as they came."""
    run, job, dataset = tables.run_facet.c, tables.job_facet.c, tables.dataset_facet.c
    parts = [
        _facets("RUN", tables.run_facet, among(connection, run.run_id, query.run_id), run.run_id),
        _facets("JOB", tables.job_facet, among(connection, job.job_id, query.job_id), job.job_id),
        _facets(
            "DATASET", tables.dataset_facet, among(connection, dataset.dataset_id, query.dataset_id), dataset.dataset_id
        ),
    ]
    found = union_all(*parts).subquery()
    named = [among(connection, found.c.name, query.name)] if query.name else []
    total = connection.execute(select(func.count()).select_from(found).where(*named)).scalar_one()
    rows = connection.execute(
        select(found)
        .where(*named)
        .order_by(found.c.kind, found.c.id, found.c.name)
        .limit(query.page_size)
        .offset((query.page - 1) * query.page_size)
    )
    items = [
        Facet(
            kind=row.kind,
            id=_uuid_text(row.id) if row.kind == "RUN" else row.id,
            name=row.name,
            seen_at=row.seen_at,
            value=_value(row.value),
        )
        for row in rows
    ]
    return Page.of(items, page=query.page, page_size=query.page_size, total_count=total)


def _value(text: str) -> Any:
    """Return a facet as JSON, or as its text if no answer can repeat it: numbers beyond all others, and depth."""
    try:
        found = orjson.loads(text)
        orjson.dumps([[[[[[[[found]]]]]]]])  # as deep as it is within an answer
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return text
    return found


def _facets(
    kind: str, table: Table, condition: ColumnElement[bool], number: ColumnElement[Any]
) -> Select[str, str, str, str, datetime.datetime]:
    of = table.c
    return select(
        literal(kind, String).label("kind"), cast(number, String).label("id"), of.name, of.value, of.seen_at
    ).where(condition)


def batches(connection: Connection, query: BatchesQuery) -> Page[Batch]:
    """Return a page of the batches that wrote a dataset, the latest first, with the offsets that they read."""
    of, facet = tables.output.c, tables.run_facet.c
    statement = (
        select(of.operation_id, of.job_id, of.created_at, of.num_rows, facet.value)
        .join(tables.run_facet, (facet.run_id == of.operation_id) & (facet.name == BATCH_FACET))
        .where(of.dataset_id == query.dataset_id, *Window(query.since, query.until).holds(of.created_at))
    )
    total = connection.execute(select(func.count()).select_from(statement.subquery())).scalar_one()
    rows = connection.execute(
        statement.order_by(of.created_at > horizon(), of.created_at.desc(), of.operation_id)
        .limit(query.page_size)
        .offset((query.page - 1) * query.page_size)
    )
    items = []
    for row in rows:
        said = _batch(row.value)
        items.append(
            Batch(
                run_id=row.operation_id,
                job_id=str(row.job_id),
                written_at=row.created_at,
                num_rows=row.num_rows,
                batch=said.batch,
                offsets=[msgspec.to_builtins(each) for each in said.offsets],
            )
        )
    return Page.of(items, page=query.page, page_size=query.page_size, total_count=total)


def _batch(text: str) -> "_Batch":
    """Return what a batch says of itself; nothing if the facet is another producer's, and not as ours are."""
    try:
        return _read_batch(text)
    except (msgspec.DecodeError, RecursionError):
        return _Batch()


def positions(connection: Connection) -> list[WriterPosition]:
    """Return how far the pipelines that fill the store have read."""
    of = tables.position.c
    rows = connection.execute(
        select(tables.position).order_by(of.pipeline, of.sink, of.topic, of.partition).limit(10_000)
    )
    return [
        WriterPosition(
            pipeline=row.pipeline,
            sink=row.sink,
            topic=row.topic,
            partition=row.partition,
            next_offset=row.next_offset,
        )
        for row in rows
    ]
