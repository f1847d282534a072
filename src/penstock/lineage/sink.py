"""The lineage store.

Guarantee: exactly once. Tasks read events into facts and merge them; the driver merges those of all tasks into the
store, in one transaction with the positions. Facts merge to the same store in any order and however often they come.
Needs a file system that the driver and all workers share, and `penstock[lineage]` where the driver runs.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from penstock.config.problem import PipelineView, Problem
from penstock.extras import require
from penstock.lineage.store.address import StoreAddress
from penstock.record.target import Target
from penstock.sinks.sink import SinkContext, SinkModel

if TYPE_CHECKING:
    from penstock.lineage.store.landing import LineageSink


class Lineage(StoreAddress, SinkModel, frozen=True):
    """The lineage store, which takes OpenLineage's events. Exactly once."""

    target_key = "store"
    needs_extra = "lineage"

    type: Literal["lineage"] = Field("lineage", description="The lineage store, for OpenLineage's events.")

    def target(self) -> Target:
        """Return the store."""
        server = self.server
        if server is None:
            return Target("table", f"{self.path}/lineage")
        return Target("table", f"{server.host}:{server.port}/{server.database}/{self.schema_name}.run")

    def problems(self, pipeline: PipelineView) -> Iterator[Problem]:
        """Return what lets a stranger read the rows, and partitions for an SQLite file."""
        server = self.server
        if server is not None and not server.is_local and server.sslmode in {"disable", "require"}:
            text = "the server's certificate is not checked, so any server could get the rows: use `verify-full`"
            yield Problem.warning(text, "sslmode")
        if server is None and self.partition_by is not None:
            yield Problem.error("an SQLite file has no partitions", "partition_by")
        if pipeline.is_stateful:
            yield Problem.error("it takes events, not results of a stateful pipeline")

    def open(self, context: SinkContext) -> "LineageSink":
        """Make the driver's part."""
        require("lineage", f"sink '{context.name}'")
        from penstock.lineage.store.landing import LineageSink

        return LineageSink(
            self, context.name, context.pipeline, context.scratch / f"{context.name}{context.replay_suffix}"
        )
