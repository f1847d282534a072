"""When the writer of a table compacts it, and how long old versions are kept."""

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from penstock.quantities import DurationMs, SizeBytes

_BATCHES = re.compile(r"\s*(\d+)\s*batch(es)?\s*")


def _counted(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = _BATCHES.fullmatch(value)
    if found is None:
        raise ValueError(f"'{value}' is not a number of batches: write as in '100 batches'")
    return int(found[1])


Batches = Annotated[
    int,
    BeforeValidator(_counted),
    Field(ge=1),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^\s*\d+\s*batch(es)?\s*$", "examples": ["100 batches"]},
                {"type": "integer", "minimum": 1},
            ]
        }
    ),
]


class CompactFiles(BaseModel, frozen=True, extra="forbid"):
    """Joining small files into larger ones, by the pipeline itself, between two batches."""

    every: Batches = Field(100, description="How many batches come between, such as `100 batches`.")
    target: SizeBytes = Field(128_000_000, ge=1_000_000, description="How large the files become, about.")


class Compact(CompactFiles, frozen=True, extra="forbid"):
    """Joining small files into larger ones, by the pipeline itself, between two batches."""

    keep: DurationMs = Field(
        604_800_000, ge=3_600_000, description="How long versions can be read that the table had before."
    )
