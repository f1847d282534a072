"""Columns that a pipeline's records have added, kept for its next start: by then the tables have them.

Losing the file costs nothing while records still bring these columns; a column that they no longer bring then has to be
named in the pipeline file.
"""

from collections.abc import Mapping
from pathlib import Path

from penstock.delivery.durable import read_versioned, write_versioned
from penstock.record.formats import PIPELINE_FILES

_FILE = "columns.json"


def load(folder: Path) -> dict[str, str]:
    """Return the columns by name, with types of Spark SQL's; none if none were met."""
    try:
        found = read_versioned(folder / _FILE, PIPELINE_FILES)
    except (OSError, ValueError):
        return {}
    return {str(name): str(kind) for name, kind in found.get("columns", {}).items()}


def add(folder: Path, columns: Mapping[str, str]) -> None:
    """Keep columns beside those that are known."""
    if columns:
        write_versioned(folder / _FILE, PIPELINE_FILES, {"columns": {**load(folder), **columns}})
