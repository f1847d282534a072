"""Column lineage: which columns of one dataset those of another are made of."""

import datetime
from collections import defaultdict
from collections.abc import Collection
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select

from penstock.lineage.facts import ColumnUse
from penstock.lineage.query.io import MOST_RELATIONS, refuse_more_than_most
from penstock.lineage.query.sets import all_flags, among, at_most
from penstock.lineage.query.window import Window
from penstock.lineage.shapes.lineage import (
    DirectLineageColumnRelation,
    IndirectLineageColumnRelation,
    LineageEntity,
    LineageSourceColumn,
)
from penstock.lineage.store import tables


class ColumnLineage(NamedTuple):
    """What was found, in the shapes of answers."""

    direct: list[DirectLineageColumnRelation]
    indirect: list[IndirectLineageColumnRelation]


def column_lineage(
    connection: Connection,
    sources: Collection[int],
    targets: Collection[int],
    window: Window,
    processes: tuple[str, Collection[Any]] | None = None,
) -> ColumnLineage:
    """Return the column lineage from some datasets to others; `processes` are a column and ids: only what those did."""
    if not sources or not targets:
        return ColumnLineage([], [])
    of, relation = tables.column_lineage.c, tables.column_relation.c
    conditions: list[ColumnElement[bool]] = [
        among(connection, of.source_dataset_id, sources),
        among(connection, of.target_dataset_id, targets),
        *window.holds_of(connection, of),
    ]
    if processes is not None:
        column, ids = processes
        conditions.append(among(connection, of[column], ids))
    # First each set of relations once: thousands of runs share one.
    used = (
        select(
            of.source_dataset_id, of.target_dataset_id, of.fingerprint, func.max(of.created_at).label("last_used_at")
        )
        .where(*conditions)
        .group_by(of.source_dataset_id, of.target_dataset_id, of.fingerprint)
        .subquery()
    )
    keys = (used.c.source_dataset_id, used.c.target_dataset_id, relation.source_column, relation.target_column)
    statement = (
        select(*keys, all_flags(relation.type).label("uses"), func.max(used.c.last_used_at).label("last_used_at"))
        .join(tables.column_relation, relation.fingerprint == used.c.fingerprint)
        .group_by(*keys)
        .order_by(*keys)
    )
    rows = connection.execute(at_most(statement, MOST_RELATIONS)).all()
    refuse_more_than_most(len(rows))
    direct: dict[tuple[int, int], dict[str, list[LineageSourceColumn]]] = defaultdict(lambda: defaultdict(list))
    indirect: dict[tuple[int, int], list[LineageSourceColumn]] = defaultdict(list)
    for row in rows:
        pair = (row.source_dataset_id, row.target_dataset_id)
        used_column = _column(row.source_column, row.uses, row.last_used_at)
        if row.target_column is None:
            indirect[pair].append(used_column)
        else:
            direct[pair][row.target_column].append(used_column)
    return ColumnLineage(
        [
            DirectLineageColumnRelation(from_=_dataset(source), to=_dataset(target), fields=dict(fields))
            for (source, target), fields in direct.items()
        ],
        [
            IndirectLineageColumnRelation(from_=_dataset(source), to=_dataset(target), fields=listed)
            for (source, target), listed in indirect.items()
        ],
    )


def _column(name: str, uses: int, last_used_at: datetime.datetime) -> LineageSourceColumn:
    types: Any = [use.name for use in ColumnUse if use & uses]
    return LineageSourceColumn(field=name, types=types, last_used_at=last_used_at)


def _dataset(number: int) -> LineageEntity:
    return LineageEntity(kind="DATASET", id=str(number))
