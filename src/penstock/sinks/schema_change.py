"""What a table's columns have to become before it can take a pipeline's rows: columns added, types widened.

Columns are compared by name, for a column that is added later stands behind the others. Whatever is not safe is
`Conflict`, with the remedy; nothing is changed here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from penstock.errors import Conflict
from penstock.record.columns import COORDINATES

NewColumns = Literal["add", "refuse"]
"""What happens to a column that the pipeline writes and the table lacks."""

Allows = Callable[[pa.DataType, pa.DataType], bool]
"""Returns whether a column of the first type can become one of the second with every value as it was."""


@dataclass(frozen=True)
class SchemaChange:
    """What a commit of the pipeline's rows does to the columns of the table."""

    added: tuple[pa.Field, ...] = ()
    widened: tuple[tuple[pa.Field, pa.DataType], ...] = ()
    """Each column as it is in the table, and the type that it gets."""

    def __bool__(self) -> bool:
        """Return whether anything changes."""
        return bool(self.added or self.widened)

    def __str__(self) -> str:
        """Return what will happen, for people."""
        parts = [f"the column {field.name} {field.type} will be added" for field in self.added]
        parts += [f"the column {field.name} {field.type} will become {kind}" for field, kind in self.widened]
        return ", ".join(parts)


def required_change(
    what: str, there: pa.Schema, ours: pa.Schema, *, new_columns: NewColumns, widens: Allows, holds: Allows
) -> SchemaChange:
    """Return what has to change in the table `what`, whose columns are `there`; raise `Conflict` if that may not be.

    `widens` tells which types the format can change, and `holds` which of ours its column takes as it is, though
    they are not the same.
    """
    known = {field.name: field for field in there}
    missing = [field.name for field in there if field.name not in ours.names]
    if missing:
        raise _conflict(
            f"{what} has the column '{missing[0]}', which the pipeline does not write",
            f"Make it in a step, such as CAST(NULL AS …) AS {missing[0]}, or write to another table",
        )
    added = tuple(field for field in ours if field.name not in known)
    unknown = [field.name for field in added if field.name in COORDINATES]
    if unknown:
        # Null in the rows that are there, they would say of no row which record it is of: replaying would double it.
        raise _conflict(
            f"{what} has no column '{unknown[0]}', so which records its rows are of is not known",
            "Say `coordinates: false`, or write to another table",
        )
    if added and new_columns == "refuse":
        raise _conflict(
            f"{what} does not have the column '{added[0].name}', and `new_columns` is `refuse`",
            "Say `new_columns: add`, add it to the table, or leave it out in a step",
        )
    folded = {name.lower(): name for name in known}
    for field in added:
        if (other := folded.get(field.name.lower())) is not None:
            raise _conflict(
                f"{what} has the column '{other}', and '{field.name}' differs from it by capital letters alone",
                f"Name it {other} in a step",
            )
    widened = list[tuple[pa.Field, pa.DataType]]()
    for field in ours:
        was = known.get(field.name)
        if was is None or was.type == field.type or holds(was.type, field.type):
            continue
        if not widens(was.type, field.type):
            raise _conflict(
                f"{what} has the column {field.name} {was.type}, and the pipeline writes {field.name} {field.type}",
                "Turn it into the table's type in a step, or write to another table",
            )
        widened.append((was, field.type))
    return SchemaChange(added, tuple(widened))


def require_kept(what: str, before: SchemaChange, now: SchemaChange) -> None:
    """Raise if a column is missing that was there before: whoever has taken it away may want it so."""
    gone = [field.name for field in now.added if field not in before.added]
    if gone:
        raise _conflict(
            f"{what} no longer has the column '{gone[0]}': somebody removed it while the pipeline ran",
            "Start the pipeline again, which adds the column again, or leave it out in a step",
        )


def _conflict(what: str, fix: str) -> Conflict:
    return Conflict(what, safe="Nothing was written", fix=fix)
