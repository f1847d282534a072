"""Walking lineage, level by level: each step from datasets to who read or wrote them, or back, is a few statements.

Up and down are walked apart: of what lies up only what lies further up is followed. What was seen is not asked for
again, so a cycle ends, and nothing is counted twice.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import Connection, Table

from penstock.lineage.query.io import COLUMN, Interaction, ProcessKind, interactions, refuse_more_than_most
from penstock.lineage.query.relatives import Symlink, child_jobs, child_runs, symlinks
from penstock.lineage.query.window import Window
from penstock.lineage.shapes.lineage import Direction, Kind
from penstock.lineage.store import tables

_Way = Literal["UPSTREAM", "DOWNSTREAM"]


@dataclass
class Found:
    """What was met on the way."""

    datasets: set[int] = field(default_factory=set)
    jobs: set[int] = field(default_factory=set)
    runs: set[UUID] = field(default_factory=set)
    operations: set[UUID] = field(default_factory=set)
    symlinks: set[Symlink] = field(default_factory=set)
    inputs: dict[tuple[int, Any], Interaction] = field(default_factory=dict)
    """By dataset and who read it."""
    outputs: dict[tuple[int, Any], Interaction] = field(default_factory=dict)

    def ids(self, kind: Kind) -> set[Any]:
        """Return what was met of a kind."""
        kinds: dict[str, set[Any]] = {
            "DATASET": self.datasets,
            "JOB": self.jobs,
            "RUN": self.runs,
            "OPERATION": self.operations,
        }
        return kinds[kind]


@dataclass(frozen=True)
class Start:
    """Where a walk begins."""

    kind: Kind
    id: int | UUID


def walk(
    connection: Connection,
    start: Start,
    *,
    direction: Direction,
    granularity: ProcessKind,
    depth: int,
    window: Window,
) -> Found:
    """Return everything within `depth` steps."""
    found = Found()
    for way in ("UPSTREAM", "DOWNSTREAM"):
        if direction in {way, "BOTH"}:
            _OneWay(connection, found, way, granularity, window).go(start, depth)
    return found


class _OneWay:
    """A walk that goes only up, or only down; what it has seen is its own, what it has found is shared."""

    def __init__(
        self, connection: Connection, found: Found, way: _Way, granularity: ProcessKind, window: Window
    ) -> None:
        self._connection = connection
        self._found = found
        self._way = way
        self._granularity = granularity
        self._window = window
        self._seen: dict[str, set[Any]] = {"DATASET": set(), "JOB": set(), "RUN": set(), "OPERATION": set()}

    def go(self, start: Start, depth: int) -> None:
        kind, frontier = start.kind, {start.id}
        if kind == "DATASET":
            frontier |= self._other_names(frontier)
        for _ in range(depth):
            if not frontier:
                return
            kind, frontier = self._from_datasets(frontier) if kind == "DATASET" else self._from(kind, frontier)
        self._meet(kind, frontier)

    def _from_datasets(self, ids: set[Any]) -> tuple[Kind, set[Any]]:
        """Go from datasets to who wrote them, if the way is up, or read them."""
        met = self._ask(tables.output if self._way == "UPSTREAM" else tables.input_, "DATASET", ids)
        return self._granularity, {each.process(self._granularity) for each in met} - self._seen[self._granularity]

    def _from(self, kind: Kind, ids: set[Any]) -> tuple[Kind, set[Any]]:
        """Go from who reads and writes, with all that they started, to what they read, if the way is up, or wrote."""
        if kind == "JOB":
            ids = ids | {child for _, child in child_jobs(self._connection, ids)}
        elif kind == "RUN":
            ids = ids | {child for _, child in child_runs(self._connection, ids)}
        met = self._ask(tables.input_ if self._way == "UPSTREAM" else tables.output, kind, ids)
        reached = {each.dataset_id for each in met} - self._seen["DATASET"]
        return "DATASET", reached | (self._other_names(reached) - self._seen["DATASET"])

    def _ask(self, side: Table, kind: Kind, ids: set[Any]) -> list[Interaction]:
        new = ids - self._seen[kind]
        met = interactions(self._connection, side, COLUMN[kind], new, self._granularity, self._window)
        self._meet(kind, ids)
        known = self._found.inputs if side is tables.input_ else self._found.outputs
        for each in met:
            known[each.dataset_id, each.process(self._granularity)] = each
            self._found.jobs.add(each.job_id)
            if each.run_id is not None:
                self._found.runs.add(each.run_id)
            if each.operation_id is not None:
                self._found.operations.add(each.operation_id)
        refuse_more_than_most(len(known))
        return met

    def _meet(self, kind: Kind, ids: Iterable[Any]) -> None:
        self._seen[kind] |= set(ids)
        self._found.ids(kind).update(ids)

    def _other_names(self, ids: set[Any]) -> set[Any]:
        met = symlinks(self._connection, ids)
        self._found.symlinks |= met
        return {each.to_dataset_id for each in met}
