"""Entries of the catalogue by their numbers, as answers have them."""

import datetime
import itertools
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, Row, Table, select

from penstock.lineage.query.sets import among
from penstock.lineage.query.window import horizon
from penstock.lineage.shapes.catalogue import Address, Dataset, DatasetSchema, Job, Location, Tag, TagValue
from penstock.lineage.store import tables


def locations(connection: Connection, ids: Collection[int]) -> dict[int, Location]:
    """Return locations with their addresses."""
    addresses = defaultdict(list)
    of = tables.location_address.c
    for row in connection.execute(
        select(of.location_id, of.url).where(among(connection, of.location_id, ids)).order_by(of.location_id, of.url)
    ):
        addresses[row.location_id].append(Address(url=row.url))
    found = connection.execute(select(tables.location).where(among(connection, tables.location.c.id, ids)))
    return {
        row.id: Location(
            id=str(row.id), type=row.type, name=row.name, addresses=addresses[row.id], external_id=row.external_id
        )
        for row in found
    }


def datasets(
    connection: Connection, ids: Collection[int], schemas: Mapping[int, DatasetSchema] | None = None
) -> dict[int, Dataset]:
    """Return datasets in the order of their numbers, with these schemas."""
    rows = _rows(connection, tables.dataset, ids)
    where = locations(connection, {row.location_id for row in rows})
    return {
        row.id: Dataset(
            id=str(row.id),
            location=where[row.location_id],
            name=row.name,
            external_id=row.external_id,
            external_url=row.external_url,
            schema_=(schemas or {}).get(row.id),
        )
        for row in rows
    }


def jobs(connection: Connection, ids: Collection[int]) -> dict[int, Job]:
    """Return jobs in the order of their numbers."""
    rows = _rows(connection, tables.job, ids)
    where = locations(connection, {row.location_id for row in rows})
    return {
        row.id: Job(
            id=str(row.id),
            parent_job_id=None if row.parent_job_id is None else str(row.parent_job_id),
            location=where[row.location_id],
            name=row.name,
            type=row.type or "UNKNOWN",
        )
        for row in rows
    }


def latest_schemas(connection: Connection, dataset_ids: Collection[int]) -> dict[int, DatasetSchema]:
    """Return the schema that each dataset was last seen with.

    If a wrong clock says that it was seen years from now, it counts from when it was first seen.
    """
    seen, schema = tables.dataset_schema.c, tables.schema.c
    found = connection.execute(
        select(seen.dataset_id, schema.id, schema.fields, seen.first_seen_at, seen.last_seen_at)
        .join(tables.schema, schema.digest == seen.schema_digest)
        .where(among(connection, seen.dataset_id, dataset_ids))
        .order_by(seen.dataset_id, seen.last_seen_at, schema.digest)
    ).all()
    latest = horizon()

    def age(row: Any) -> tuple[int, bool, datetime.datetime]:
        known = [each for each in (row.last_seen_at, row.first_seen_at) if each <= latest]
        return row.dataset_id, bool(known), known[0] if known else row.last_seen_at

    found = sorted(found, key=age)
    many = {one.dataset_id for one, other in itertools.pairwise(found) if one.dataset_id == other.dataset_id}
    return {
        row.dataset_id: DatasetSchema(
            id=str(row.id),
            fields=row.fields,
            relevance_type="LATEST_KNOWN" if row.dataset_id in many else "EXACT_MATCH",
        )
        for row in found
    }


def tags_of(connection: Connection, link: Table, ids: Collection[int]) -> dict[int, list[Tag]]:
    """Return the tags of datasets or jobs, by way of the table that links them."""
    tag, value = tables.tag.c, tables.tag_value.c
    subject = next(iter(link.primary_key))
    found = connection.execute(
        select(subject.label("subject"), tag.id, tag.name, value.id.label("value_id"), value.value)
        .join(tables.tag_value, value.id == link.c.tag_value_id)
        .join(tables.tag, tag.id == value.tag_id)
        .where(among(connection, subject, ids))
        .order_by(subject, tag.name, value.value)
    )
    values: dict[int, dict[tuple[int, str], list[TagValue]]] = defaultdict(lambda: defaultdict(list))
    for row in found:
        values[row.subject][row.id, row.name].append(TagValue(id=row.value_id, value=row.value))
    return {
        of: [Tag(id=tag_id, name=name, values=listed) for (tag_id, name), listed in each.items()]
        for of, each in values.items()
    }


def _rows(connection: Connection, table: Table, ids: Collection[int]) -> list[Row[Any]]:
    return list(connection.execute(select(table).where(among(connection, table.c.id, ids)).order_by(table.c.id)).all())
