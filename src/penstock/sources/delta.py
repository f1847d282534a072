"""A landed Delta table, as the source of a stateful pipeline.

Guarantee: each row of the table once, in the order of its commits, kept by Spark's own checkpoint.
"""

from typing import Literal

from pydantic import BaseModel, Field

from penstock.quantities import DurationMs
from penstock.secret import PathFromFile


class Watermark(BaseModel, frozen=True, extra="forbid"):
    """How late an event may be before a window closes without it."""

    column: str = Field(description="Column with the time of the event.")
    delay: DurationMs = Field(ge=0, description="How late is still in time.")


class DeltaTable(BaseModel, frozen=True, extra="forbid"):
    """A table that another pipeline landed; Spark keeps the state and the place in it."""

    type: Literal["delta"] = Field("delta", description="A landed Delta table.")
    path: PathFromFile = Field(description="Folder of the table.")
    watermark: Watermark | None = Field(None, description="When windows close; without it, state is kept for ever.")
    max_files: int = Field(1000, ge=1, description="Files of the table a batch.")
