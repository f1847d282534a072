"""Walking lineage from dataset to dataset, without who reads and writes."""

import datetime
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from penstock.lineage.query.io import MOST_RELATIONS, refuse_more_than_most
from penstock.lineage.query.relatives import Symlink, symlinks
from penstock.lineage.query.sets import among, at_most
from penstock.lineage.query.window import Window
from penstock.lineage.shapes.lineage import Direction
from penstock.lineage.store import tables

_Pairs = dict[tuple[int, int], datetime.datetime]
_DENSE_OPERATIONS = 50_000
_PART = 10
"""A step over one operation of so many is over a good part of all."""


@dataclass
class FoundDatasets:
    """What was met on the way."""

    datasets: set[int] = field(default_factory=set)
    symlinks: set[Symlink] = field(default_factory=set)
    relations: _Pairs = field(default_factory=dict)
    """By the dataset that was read and the one that the same operation wrote: when it last did."""


def walk_datasets(
    connection: Connection, dataset_id: int, *, direction: Direction, depth: int, window: Window
) -> FoundDatasets:
    """Return everything within `depth` steps; a dataset is never shown as made of itself."""
    found, relations = FoundDatasets(), _Relations(connection, window)
    for way in ("UPSTREAM", "DOWNSTREAM"):
        if direction not in {way, "BOTH"}:
            continue
        seen: set[int] = set()
        frontier = {dataset_id} | _other_names(connection, found, {dataset_id})
        for _ in range(depth):
            if not frontier:
                break
            seen |= frontier
            new = relations.of(frontier, is_up=way == "UPSTREAM")
            found.relations |= new
            refuse_more_than_most(len(found.relations))
            reached = {one if way == "UPSTREAM" else other for one, other in new} - seen
            frontier = reached | (_other_names(connection, found, reached) - seen)
        found.datasets |= seen | frontier
    return found


class _Relations:
    """Which datasets were made of which, asked for step by step.

    A step over very many operations, and a good part of all, shows that the history is dense: the same few datasets,
    again and again. From then on all is asked for at once, which takes as long as two or three such steps do, however
    many are left.
    """

    def __init__(self, connection: Connection, window: Window) -> None:
        self._connection = connection
        self._window = window
        self._is_dense: bool | None = None
        """None until a step has met very many operations."""
        self._all: _Pairs | None = None

    def of(self, ids: set[int], *, is_up: bool) -> _Pairs:
        """Return what these are made of, if the way is up, or what is made of them."""
        if self._is_dense and self._all is None:
            pairs, _ = self._asked()
            self._is_dense = len(pairs) <= MOST_RELATIONS
            self._all = pairs if self._is_dense else None
        if self._all is not None:
            return {pair: at for pair, at in self._all.items() if pair[is_up] in ids}
        side = tables.output.c if is_up else tables.input_.c
        pairs, operations = self._asked(among(self._connection, side.dataset_id, ids))
        refuse_more_than_most(len(pairs))
        if self._is_dense is None and operations >= _DENSE_OPERATIONS:
            self._is_dense = self._has_at_most(_PART * operations)
        return pairs

    def _has_at_most(self, reads: int) -> bool:
        """Look whether the window has no more reads than this; no more of them are looked at."""
        read = tables.input_.c
        some = at_most(select(read.operation_id).where(*self._within(read)), reads).subquery()
        return self._connection.execute(select(func.count()).select_from(some)).scalar_one() <= reads

    def _within(self, of: Any) -> list[ColumnElement[bool]]:
        return self._window.holds_of(self._connection, of)

    def _asked(self, *chosen: ColumnElement[bool]) -> tuple[_Pairs, int]:
        """Return the relations, one more than there may be if there are too many, and of how many operations."""
        read, written = tables.input_.c, tables.output.c
        statement = (
            select(
                read.dataset_id,
                written.dataset_id,
                func.max(written.created_at).label("last_at"),
                func.count().label("operations"),
            )
            .join(
                tables.output,
                (written.operation_id == read.operation_id) & (written.dataset_id != read.dataset_id),
            )
            .where(*chosen, *self._within(read), *self._within(written))
            .group_by(read.dataset_id, written.dataset_id)
        )
        rows = self._connection.execute(at_most(statement, MOST_RELATIONS)).all()
        return {(row[0], row[1]): row.last_at for row in rows}, sum(row.operations for row in rows)


def _other_names(connection: Connection, found: FoundDatasets, ids: set[int]) -> set[int]:
    met = symlinks(connection, ids)
    found.symlinks |= met
    return {each.to_dataset_id for each in met}
