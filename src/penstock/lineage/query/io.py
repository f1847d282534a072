"""What was read or written: one row per operation, run or job and dataset, summed up by the database."""

import datetime
from collections.abc import Collection, Iterable
from typing import Any, Literal, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Select, Table, exists, func, literal, select, union_all

from penstock.errors import BadInput
from penstock.lineage.keys import NO_RUN
from penstock.lineage.query.sets import all_flags, among, at_most, total
from penstock.lineage.query.window import Window
from penstock.lineage.shapes.parameters import LARGEST_NUMBER

MOST_RELATIONS = 100_000
ProcessKind = Literal["OPERATION", "RUN", "JOB"]
COLUMN: dict[str, str] = {"OPERATION": "operation_id", "RUN": "run_id", "JOB": "job_id", "DATASET": "dataset_id"}
_KEYS = {"OPERATION": ("operation_id", "run_id", "job_id"), "RUN": ("run_id", "job_id"), "JOB": ("job_id",)}


class Interaction(NamedTuple):
    """That an operation, a run or a job read or wrote a dataset; in sum, if it did so several times."""

    dataset_id: int
    job_id: int
    run_id: UUID | None
    operation_id: UUID | None
    last_at: datetime.datetime
    num_bytes: int | None
    num_rows: int | None
    num_files: int | None
    kinds: int
    """What the writes did; 0 for those that read."""

    def plus(self, other: "Interaction") -> "Interaction":
        """Return the sum of two, for what both are parts of."""
        return self._replace(
            last_at=max(self.last_at, other.last_at),
            num_bytes=_sum(self.num_bytes, other.num_bytes),
            num_rows=_sum(self.num_rows, other.num_rows),
            num_files=_sum(self.num_files, other.num_files),
            kinds=self.kinds | other.kinds,
        )

    def process(self, kind: ProcessKind) -> Any:
        """Return the id of who read or wrote."""
        return getattr(self, COLUMN[kind])


def interactions(
    connection: Connection,
    side: Table,
    by: str,
    ids: Collection[Any],
    granularity: ProcessKind,
    window: Window,
) -> list[Interaction]:
    """Return who read (`side` is `input`) or wrote (`output`), for these datasets or processes (`by`: the column).

    A long operation has a row for each hour, which count what it has done so far: of these the greatest counts.
    """
    if not ids:
        return []
    keys = _KEYS[granularity]

    def chosen(of: Any) -> list[ColumnElement[bool]]:
        # What a job was only said to do has neither a run nor an operation to show.
        has_run = [] if granularity == "JOB" else [of.run_id != NO_RUN]
        return [among(connection, of[by], ids), *window.holds_of(connection, of), *has_run]

    if granularity == "OPERATION":
        statement = _greatest_of_hours(side, keys).where(*chosen(side.c))
    else:
        # To tell a million operations apart takes longer than all the rest, and only a few have several hours.
        later = side.alias("later")
        is_long = exists().where(later.c.operation_id == side.c.operation_id, later.c.is_later_hour, *chosen(later.c))
        short = _summed(side.c, keys, created_at="created_at", kinds="type").where(*chosen(side.c), ~is_long)
        part = union_all(short, _greatest_of_hours(side, keys).where(*chosen(side.c), is_long)).subquery()
        statement = _summed(part.c, keys)
    rows = connection.execute(at_most(statement, MOST_RELATIONS)).all()
    refuse_more_than_most(len(rows))
    has_run, has_operation = "run_id" in keys, "operation_id" in keys
    return [
        Interaction(
            dataset_id=row.dataset_id,
            job_id=row.job_id,
            run_id=row.run_id if has_run else None,
            operation_id=row.operation_id if has_operation else None,
            last_at=row.last_at,
            num_bytes=row.num_bytes,
            num_rows=row.num_rows,
            num_files=row.num_files,
            kinds=row.kinds,
        )
        for row in rows
    ]


def _summed(of: Any, keys: Iterable[str], created_at: str = "last_at", kinds: str = "kinds") -> Select[Any]:
    flags: ColumnElement[Any] = all_flags(of[kinds]) if kinds in of else literal(0)
    return select(
        *(of[key] for key in keys),
        of.dataset_id,
        func.max(of[created_at]).label("last_at"),
        total(of.num_bytes).label("num_bytes"),
        total(of.num_rows).label("num_rows"),
        total(of.num_files).label("num_files"),
        flags.label("kinds"),
    ).group_by(*(of[key] for key in keys), of.dataset_id)


def _greatest_of_hours(side: Table, keys: Iterable[str]) -> Select[Any]:
    """Return each operation once: its hours count what it has done so far."""
    of = side.c
    kinds: ColumnElement[Any] = all_flags(of.type) if "type" in of else literal(0)
    return select(
        *(of[key] for key in keys),
        of.dataset_id,
        func.max(of.created_at).label("last_at"),
        func.max(of.num_bytes).label("num_bytes"),
        func.max(of.num_rows).label("num_rows"),
        func.max(of.num_files).label("num_files"),
        kinds.label("kinds"),
    ).group_by(of.operation_id, *(of[key] for key in keys), of.dataset_id)


def refuse_more_than_most(count: int) -> None:
    """Raise `BadInput` before an answer takes all memory."""
    if count > MOST_RELATIONS:
        raise BadInput(
            f"the answer has more than {MOST_RELATIONS:,} relations",
            fix="Ask for less time, less depth, or a coarser granularity",
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one + other, LARGEST_NUMBER)
