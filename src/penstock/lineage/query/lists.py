"""Pages of datasets, jobs, runs, operations, locations and tags."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, FromClause, Select, Table, and_, func, or_, select

from penstock.lineage.facts import Status
from penstock.lineage.query import catalogue, history
from penstock.lineage.query.sets import among, by_uuid
from penstock.lineage.query.window import Window, horizon
from penstock.lineage.shapes.catalogue import (
    DatasetDetailed,
    LocationDatasetStatistics,
    LocationDetailed,
    LocationJobStatistics,
    LocationStatistics,
    Tag,
    TagDetailed,
    TagValue,
)
from penstock.lineage.shapes.page import Page
from penstock.lineage.shapes.parameters import (
    DatasetsQuery,
    JobsQuery,
    LocationsQuery,
    OperationsQuery,
    Paging,
    RunsQuery,
    TagsQuery,
)
from penstock.lineage.shapes.runs import (
    IoStatistics,
    JobDetailed,
    Operation,
    OperationDetailed,
    OperationStatistics,
    Run,
    RunDetailed,
    RunOperationStatistics,
    RunStatistics,
)
from penstock.lineage.store import tables

Item = TypeVar("Item")
_NOTHING = IoStatistics()


def datasets(connection: Connection, query: DatasetsQuery) -> Page[DatasetDetailed]:
    """Return a page of datasets, by name."""
    of = tables.dataset.c
    conditions = [
        *_chosen(connection, of.id, query.dataset_id),
        *_in_locations(connection, of.location_id, query.location_id, query.location_type),
        *_tagged(tables.dataset_tag, of.id, query.tag_value_id),
        *_named(of.name_key, query.search_query, location_id=of.location_id),
    ]

    def details(ids: Collection[int]) -> dict[int, DatasetDetailed]:
        tags = catalogue.tags_of(connection, tables.dataset_tag, ids)
        found = catalogue.datasets(connection, ids, catalogue.latest_schemas(connection, ids))
        return {
            number: DatasetDetailed(id=each.id, data=each, tags=tags.get(number, [])) for number, each in found.items()
        }

    return _page(connection, query, [select(of.id).where(*conditions).order_by(of.name_key, of.id)], details)


def jobs(connection: Connection, query: JobsQuery) -> Page[JobDetailed]:
    """Return a page of jobs, by name, each with its last run."""
    of = tables.job.c
    conditions = [
        *_chosen(connection, of.id, query.job_id),
        *_chosen(connection, of.parent_job_id, query.parent_job_id),
        *_of_types(connection, of.type, query.job_type),
        *_in_locations(connection, of.location_id, query.location_id, query.location_type),
        *_tagged(tables.job_tag, of.id, query.tag_value_id),
        *_named(of.name_key, query.search_query, location_id=of.location_id),
    ]

    def details(ids: Collection[int]) -> dict[int, JobDetailed]:
        tags = catalogue.tags_of(connection, tables.job_tag, ids)
        last = history.last_runs(connection, ids)
        return {
            number: JobDetailed(id=each.id, data=each, tags=tags.get(number, []), last_run=last.get(number))
            for number, each in catalogue.jobs(connection, ids).items()
        }

    return _page(connection, query, [select(of.id).where(*conditions).order_by(of.name_key, of.id)], details)


def runs(connection: Connection, query: RunsQuery) -> Page[RunDetailed]:
    """Return a page of runs, the latest first."""
    of, job = tables.run.c, tables.job.c
    window = Window(query.since, query.until).with_streams(connection)
    conditions = [
        *([by_uuid(connection, of.id, of.created_at, query.run_id)] if query.run_id else []),
        *_chosen(connection, of.parent_run_id, query.parent_run_id),
        *_chosen(connection, of.job_id, query.job_id),
        *_chosen(connection, of.status, [Status[each].value for each in query.status]),
        *_chosen(connection, of.started_by, query.started_by_user),
        *Window(query.started_since, query.started_until).holds(of.started_at),
        *Window(query.ended_since, query.ended_until).holds(of.ended_at),
    ]
    source: FromClause = tables.run
    if query.job_type or query.job_location_id or query.search_query:
        source = tables.run.join(tables.job, job.id == of.job_id, isouter=True)
        conditions += _of_types(connection, job.type, query.job_type)
        conditions += _chosen(connection, job.location_id, query.job_location_id)
        for word in _words(query.search_query):
            external = func.lower(of.external_id).contains(word, autoescape=True)
            conditions.append(or_(external, job.name_key.contains(word, autoescape=True)))

    def details(ids: Collection[Any]) -> dict[Any, RunDetailed]:
        found = {number: Run.model_validate(each) for number, each in history.runs(connection, ids).items()}
        of_jobs = catalogue.jobs(connection, {int(each.job_id) for each in found.values() if each.job_id})
        read = history.statistics(connection, tables.input_, "run_id", ids)
        written = history.statistics(connection, tables.output, "run_id", ids)
        counts = history.operation_counts(connection, ids)
        return {
            each.id: RunDetailed(
                id=each.id,
                data=each,
                job=of_jobs.get(int(each.job_id)) if each.job_id else None,
                statistics=RunStatistics(
                    inputs=read.get(each.id, _NOTHING),
                    outputs=written.get(each.id, _NOTHING),
                    operations=RunOperationStatistics(total_operations=counts.get(each.id, 0)),
                ),
            )
            for each in found.values()
        }

    chosen = select(of.id).select_from(source).where(*conditions)
    return _page(connection, query, _latest_first(connection, chosen, of, window, window.stream_runs), details)


def operations(connection: Connection, query: OperationsQuery) -> Page[OperationDetailed]:
    """Return a page of operations, the latest first."""
    of = tables.operation.c
    window = Window(query.since, query.until).with_streams(connection)
    conditions = [
        *([by_uuid(connection, of.id, of.created_at, query.operation_id)] if query.operation_id else []),
        *_chosen(connection, of.run_id, query.run_id),
    ]

    def details(ids: Collection[Any]) -> dict[Any, OperationDetailed]:
        read = history.statistics(connection, tables.input_, "operation_id", ids)
        written = history.statistics(connection, tables.output, "operation_id", ids)
        return {
            number: OperationDetailed(
                id=number,
                data=Operation.model_validate(each),
                statistics=OperationStatistics(
                    inputs=read.get(number, _NOTHING), outputs=written.get(number, _NOTHING)
                ),
            )
            for number, each in history.operations(connection, ids).items()
        }

    chosen = select(of.id).where(*conditions)
    return _page(connection, query, _latest_first(connection, chosen, of, window, window.streams), details)


def locations(connection: Connection, query: LocationsQuery) -> Page[LocationDetailed]:
    """Return a page of locations, by type and name."""
    of = tables.location.c
    conditions = [
        *_chosen(connection, of.id, query.location_id),
        *_chosen(connection, of.type, query.location_type),
        *_named(None, query.search_query, location_id=of.id),
    ]
    statement = select(of.id).where(*conditions).order_by(of.type, of.name)
    return _page(connection, query, [statement], lambda ids: locations_with_counts(connection, ids))


def locations_with_counts(connection: Connection, ids: Collection[int]) -> dict[int, LocationDetailed]:
    """Return locations with the number of what is in them."""
    counts = []
    for table in (tables.dataset, tables.job):
        column = table.c.location_id
        rows = connection.execute(select(column, func.count()).where(among(connection, column, ids)).group_by(column))
        counts.append({row[0]: row[1] for row in rows})
    return {
        number: LocationDetailed(
            id=each.id,
            data=each,
            statistics=LocationStatistics(
                datasets=LocationDatasetStatistics(total_datasets=counts[0].get(number, 0)),
                jobs=LocationJobStatistics(total_jobs=counts[1].get(number, 0)),
            ),
        )
        for number, each in catalogue.locations(connection, ids).items()
    }


def tags(connection: Connection, query: TagsQuery) -> Page[TagDetailed]:
    """Return a page of tags, by name, each with all values that it has."""
    of, value = tables.tag.c, tables.tag_value.c
    conditions = _chosen(connection, of.id, query.tag_id)
    for word in _words(query.search_query):
        has_value = select(value.id).where(
            value.tag_id == of.id, func.lower(value.value).contains(word, autoescape=True)
        )
        conditions.append(or_(func.lower(of.name).contains(word, autoescape=True), has_value.exists()))

    def details(ids: Collection[int]) -> dict[int, TagDetailed]:
        values: dict[int, list[TagValue]] = {}
        for row in connection.execute(
            select(tables.tag_value).where(among(connection, value.tag_id, ids)).order_by(value.value)
        ):
            values.setdefault(row.tag_id, []).append(TagValue(id=row.id, value=row.value))
        found = connection.execute(select(tables.tag).where(among(connection, of.id, ids)))
        return {
            row.id: TagDetailed(id=row.id, data=Tag(id=row.id, name=row.name, values=values.get(row.id, [])))
            for row in found
        }

    return _page(connection, query, [select(of.id).where(*conditions).order_by(of.name)], details)


def distinct(connection: Connection, column: ColumnElement[Any]) -> list[str]:
    """Return the values that a column has, in order; what nobody has said is UNKNOWN."""
    found = connection.execute(select(func.coalesce(column, "UNKNOWN")).distinct()).scalars()
    return sorted(found)


def _latest_first(
    connection: Connection, chosen: Select[Any], of: Any, window: Window, streams: Collection[UUID]
) -> list[Select[Any]]:
    """Return what of the chosen is to be listed: what began within the window, then streams that go on from before it.

    What a wrong clock has put years ahead is last, or it would be first for years.
    """
    latest = horizon()
    ordered = chosen.order_by(of.created_at.desc(), of.id.desc())
    within = ordered.where(*window.holds(of.created_at))
    before = []
    if streams:
        before = [ordered.where(of.created_at < window.since, by_uuid(connection, of.id, of.created_at, streams))]
    return [within.where(of.created_at <= latest), *before, within.where(of.created_at > latest)]


def _page(
    connection: Connection,
    paging: Paging,
    listed: Sequence[Select[Any]],
    details: Callable[[Collection[Any]], dict[Any, Item]],
) -> Page[Item]:
    """Return a page of what several statements list, one after the other."""
    total = 0
    ids: list[Any] = []
    skipped = (paging.page - 1) * paging.page_size
    for each in listed:
        count = connection.execute(select(func.count()).select_from(each.order_by(None).subquery())).scalar_one()
        if skipped < count and len(ids) < paging.page_size:
            ids += connection.execute(each.limit(paging.page_size - len(ids)).offset(skipped)).scalars()
        skipped = max(0, skipped - count)
        total += count
    found = details(ids) if ids else {}
    items = [found[each] for each in ids if each in found]
    return Page.of(items, page=paging.page, page_size=paging.page_size, total_count=total)


def _chosen(connection: Connection, column: ColumnElement[Any], values: Collection[Any]) -> list[ColumnElement[bool]]:
    return [among(connection, column, values)] if values else []


def _of_types(connection: Connection, column: ColumnElement[Any], types: Collection[str]) -> list[ColumnElement[bool]]:
    """Return the condition that a job is of one of these types; of those whose type nobody has said it is UNKNOWN."""
    if not types:
        return []
    named = among(connection, column, types)
    return [or_(named, column.is_(None)) if "UNKNOWN" in types else named]


def _in_locations(
    connection: Connection, column: ColumnElement[Any], ids: Collection[int], types: Collection[str]
) -> list[ColumnElement[bool]]:
    found = _chosen(connection, column, ids)
    if types:
        found.append(column.in_(select(tables.location.c.id).where(among(connection, tables.location.c.type, types))))
    return found


def _tagged(link: Table, subject: ColumnElement[Any], values: Collection[int]) -> list[ColumnElement[bool]]:
    """Return the condition that something has each of the tags, not only one of them."""
    of = next(iter(link.primary_key))
    return [select(link).where(of == subject, link.c.tag_value_id == value).exists() for value in set(values)]


def _named(
    name: ColumnElement[Any] | None, search_query: str | None, *, location_id: ColumnElement[Any]
) -> list[ColumnElement[bool]]:
    """Return the condition that every word is in the name, or in the name or an address of the location."""
    location, address = tables.location.alias(), tables.location_address.alias()
    found = []
    for word in _words(search_query):
        has_name = select(location.c.id).where(
            and_(location.c.id == location_id, func.lower(location.c.name).contains(word, autoescape=True))
        )
        has_address = select(address.c.url).where(
            and_(address.c.location_id == location_id, func.lower(address.c.url).contains(word, autoescape=True))
        )
        either: list[ColumnElement[bool]] = [has_name.exists(), has_address.exists()]
        if name is not None:
            either.insert(0, name.contains(word, autoescape=True))
        found.append(or_(*either))
    return found


def _words(search_query: str | None) -> list[str]:
    return (search_query or "").lower().split()
