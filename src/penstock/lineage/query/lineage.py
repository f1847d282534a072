"""The lineage of a dataset, a job, a run or an operation."""

import functools
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Table, case, func, select

from penstock.lineage.facts import WriteKind
from penstock.lineage.query import catalogue, history
from penstock.lineage.query.columns import ColumnLineage, column_lineage
from penstock.lineage.query.dataset_walk import walk_datasets
from penstock.lineage.query.history import Values
from penstock.lineage.query.io import COLUMN, Interaction, ProcessKind
from penstock.lineage.query.relatives import Symlink, parent_jobs
from penstock.lineage.query.sets import among
from penstock.lineage.query.walk import Start, walk
from penstock.lineage.query.window import Window, horizon
from penstock.lineage.shapes.catalogue import DatasetSchema
from penstock.lineage.shapes.lineage import (
    Direction,
    Granularity,
    Kind,
    Lineage,
    LineageNodes,
    LineageRelations,
)
from penstock.lineage.store import tables

_NODES = list(LineageNodes.model_fields)
_RELATIONS = list(LineageRelations.model_fields)
_LEVELS: dict[ProcessKind, tuple[ProcessKind, ...]] = {
    "JOB": ("JOB",),
    "RUN": ("JOB", "RUN"),
    "OPERATION": ("JOB", "RUN", "OPERATION"),
}


def lineage(connection: Connection, start: Start, **wanted: Any) -> Lineage:
    """Return the answer of `lineage_values` as a model."""
    return Lineage.model_validate(lineage_values(connection, start, **wanted))


def lineage_values(
    connection: Connection,
    start: Start,
    *,
    direction: Direction,
    granularity: Granularity,
    depth: int,
    window: Window,
    with_columns: bool = False,
) -> Values:
    """Return what is within `depth` steps; a start that does not exist has no lineage.

    Finer granularities come with the sums for the coarser ones. Raises `BadInput` instead of an answer without bounds.
    The values are those of `Lineage`; as models one by one they would take most of the time of a large answer.
    """
    window = window.with_streams(connection)
    if granularity == "DATASET":
        return _between_datasets(connection, start, direction, depth, window, with_columns=with_columns)
    found = walk(connection, start, direction=direction, granularity=granularity, depth=depth, window=window)
    processes = (COLUMN[granularity], found.ids(granularity))
    columns = ColumnLineage([], [])
    if with_columns:
        sources, targets = {dataset for dataset, _ in found.inputs}, {dataset for dataset, _ in found.outputs}
        columns = column_lineage(connection, sources, targets, window, processes)
    operations = history.operations(connection, found.operations)
    runs = _runs_with_parents(connection, found.runs | {each["run_id"] for each in operations.values()})
    job_ids = found.jobs | {int(each["job_id"]) for each in runs.values() if each["job_id"] is not None}
    job_parents = sorted(parent_jobs(connection, job_ids))
    jobs = catalogue.jobs(connection, job_ids | {parent for parent, _ in job_parents})
    schemas = _schemas(connection, found.datasets, window, processes)
    datasets = catalogue.datasets(connection, found.datasets, schemas)
    relations = {
        "parents": _parents(job_parents, runs, operations),
        "symlinks": _symlinks(found.symlinks),
        "inputs": _inputs(found.inputs.values(), granularity),
        "outputs": _outputs(found.outputs.values(), granularity),
        "direct_column_lineage": columns.direct,
        "indirect_column_lineage": columns.indirect,
    }
    nodes: dict[str, dict[Any, Any]] = {"datasets": datasets, "jobs": jobs, "runs": runs, "operations": operations}
    return _answer(relations, nodes)


def _between_datasets(
    connection: Connection, start: Start, direction: Direction, depth: int, window: Window, *, with_columns: bool
) -> Values:
    found = walk_datasets(connection, int(start.id), direction=direction, depth=depth, window=window)
    columns = ColumnLineage([], [])
    if with_columns:
        pairs = set(found.relations)
        some = column_lineage(connection, {one for one, _ in pairs}, {other for _, other in pairs}, window)
        columns = ColumnLineage(
            [each for each in some.direct if (int(each.from_.id), int(each.to.id)) in pairs],
            [each for each in some.indirect if (int(each.from_.id), int(each.to.id)) in pairs],
        )
    datasets = catalogue.datasets(connection, found.datasets, _schemas(connection, found.datasets, window))
    relations = {
        "symlinks": _symlinks(found.symlinks),
        "inputs": [
            {
                "from": _entity("DATASET", one),
                "to": _entity("DATASET", other),
                "last_interaction_at": at,
                **dict.fromkeys(("num_bytes", "num_rows", "num_files")),
            }
            for (one, other), at in sorted(found.relations.items())
        ],
        "direct_column_lineage": columns.direct,
        "indirect_column_lineage": columns.indirect,
    }
    return _answer(relations, {"datasets": datasets})


def _answer(relations: Values, nodes: dict[str, dict[Any, Any]]) -> Values:
    by_id = {kind: {str(number): each for number, each in nodes.get(kind, {}).items()} for kind in _NODES}
    return {"relations": {kind: relations.get(kind, []) for kind in _RELATIONS}, "nodes": by_id}


def _runs_with_parents(connection: Connection, ids: Iterable[UUID]) -> dict[UUID, Values]:
    found: dict[UUID, Values] = {}
    missing, asked = set(ids), set(ids)
    while missing:
        new = history.runs(connection, missing)
        found |= new
        missing = {each["parent_run_id"] for each in new.values() if each["parent_run_id"] is not None} - asked
        asked |= missing
    return found


def _schemas(
    connection: Connection,
    datasets: Collection[int],
    window: Window,
    processes: tuple[str, Collection[Any]] | None = None,
) -> dict[int, DatasetSchema]:
    """Return the schema that each dataset was last written with within the answer, or else read with."""
    found: dict[int, DatasetSchema] = {}
    for side in (tables.output, tables.input_):
        missing = set(datasets) - set(found)
        if missing:
            found |= _schemas_of(connection, side, missing, window, processes)
    return found


def _schemas_of(
    connection: Connection,
    side: Table,
    datasets: Collection[int],
    window: Window,
    processes: tuple[str, Collection[Any]] | None,
) -> dict[int, DatasetSchema]:
    of, schema = side.c, tables.schema.c
    conditions = [among(connection, of.dataset_id, datasets), *window.holds_of(connection, of)]
    if processes is not None:
        column, ids = processes
        conditions.append(among(connection, of[column], ids))
    near = func.max(case((of.created_at <= horizon(), of.created_at)))
    seen = (
        select(of.dataset_id, of.schema_digest, near.label("near"), func.max(of.created_at).label("last_at"))
        .where(*conditions, of.schema_digest.is_not(None))
        .group_by(of.dataset_id, of.schema_digest)
        .subquery()
    )
    rows = connection.execute(
        select(seen.c.dataset_id, schema.id, schema.fields)
        .join(tables.schema, schema.digest == seen.c.schema_digest)
        .order_by(seen.c.dataset_id, seen.c.near.is_not(None), seen.c.near, seen.c.last_at, seen.c.schema_digest)
    )
    last: dict[int, list[Any]] = defaultdict(list)
    for row in rows:
        last[row.dataset_id].append(row)
    return {
        number: DatasetSchema(
            id=str(several[-1].id),
            fields=several[-1].fields,
            relevance_type="EXACT_MATCH" if len(several) == 1 else "LATEST_KNOWN",
        )
        for number, several in last.items()
    }


def _parents(jobs: Iterable[tuple[int, int]], runs: dict[UUID, Values], operations: dict[UUID, Values]) -> list[Values]:
    pairs = [(_entity("JOB", parent), _entity("JOB", child)) for parent, child in jobs]
    pairs += [
        (_entity("RUN", each["parent_run_id"]), _entity("RUN", each["id"]))
        for each in runs.values()
        if each["parent_run_id"] is not None
    ]
    pairs += [
        (_entity("JOB", each["job_id"]), _entity("RUN", each["id"]))
        for each in runs.values()
        if each["job_id"] is not None
    ]
    pairs += [(_entity("RUN", each["run_id"]), _entity("OPERATION", each["id"])) for each in operations.values()]
    return [{"from": one, "to": other} for one, other in pairs]


def _symlinks(found: Iterable[Symlink]) -> list[Values]:
    return [
        {
            "from": _entity("DATASET", each.from_dataset_id),
            "to": _entity("DATASET", each.to_dataset_id),
            "type": each.type,
        }
        for each in sorted(found)
    ]


def _inputs(found: Collection[Interaction], granularity: ProcessKind) -> list[Values]:
    return [
        {"from": _entity("DATASET", each.dataset_id), "to": _entity(level, each.process(level)), **_counts(each)}
        for level in _LEVELS[granularity]
        for each in _summed(found, level)
    ]


def _outputs(found: Collection[Interaction], granularity: ProcessKind) -> list[Values]:
    return [
        {
            "from": _entity(level, each.process(level)),
            "to": _entity("DATASET", each.dataset_id),
            "types": _kinds(each.kinds),
            **_counts(each),
        }
        for level in _LEVELS[granularity]
        for each in _summed(found, level)
    ]


def _counts(each: Interaction) -> Values:
    return {
        "last_interaction_at": each.last_at,
        "num_bytes": each.num_bytes,
        "num_rows": each.num_rows,
        "num_files": each.num_files,
    }


def _summed(found: Iterable[Interaction], level: ProcessKind) -> list[Interaction]:
    """Return what was found, summed up for a coarser level, in an order that is always the same."""
    sums: dict[tuple[int, Any], Interaction] = {}
    for each in found:
        key = (each.dataset_id, each.process(level))
        sums[key] = sums[key].plus(each) if key in sums else each
    return [sums[key] for key in sorted(sums)]


@functools.cache
def _kinds(flags: int) -> list[str | None]:
    return [each.name for each in WriteKind if each & flags]


def _entity(kind: Kind, number: object) -> dict[str, str]:
    return {"kind": kind, "id": str(number)}
