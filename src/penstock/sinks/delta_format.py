"""The format version of a Delta table that Penstock writes to: a property of the table, for positions and coordinates.

A table that somebody else has made says none until Penstock writes to it. One that has Penstock's positions and no
version was written by an older Penstock.
"""

from pathlib import Path
from typing import Any

from penstock.record.formats import DELTA_TABLE, KEY, require_format, version_in

FORMAT_PROPERTY = f"penstock.{KEY}"


def require_understood(table: Any, path: Path, *, is_ours: bool = False) -> None:
    """Raise `FormatNotUnderstood` for a table of another version; `is_ours` says that it has Penstock's positions."""
    found = table.metadata().configuration.get(FORMAT_PROPERTY)
    if found is not None or is_ours:
        otherwise = f"set its property `{FORMAT_PROPERTY}` back if somebody changed it, or write to another path"
        require_format(f"the table {path}", version_in(found), DELTA_TABLE, otherwise=otherwise)


def mark_as_ours(table: Any) -> None:
    """Record the version in the table, if it is missing, before the first position is written."""
    if FORMAT_PROPERTY not in table.metadata().configuration:
        table.alter.set_table_properties({FORMAT_PROPERTY: str(DELTA_TABLE)}, raise_if_not_exists=False)
