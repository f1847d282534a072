"""Printing the results of a stateful pipeline. At least once."""

import sys

import orjson
import pyarrow.dataset as ds

from penstock.sinks.console import Console
from penstock.sinks.merging import MergeContext, MergingSink
from penstock.sinks.rows import plain_rows
from penstock.terminal import write_data


class ConsoleMerge(MergingSink):
    """Prints the changes; at least once."""

    keeps_position = False

    def __init__(self, spec: Console, context: MergeContext) -> None:
        super().__init__(context.name)
        self._limit = spec.rows

    def position(self) -> int | None:
        """Return none: the terminal keeps no position."""
        return None

    def merge(self, rows: ds.Dataset, _expected: int | None, _following: int) -> None:
        """Print."""
        for batch in rows.head(self._limit).to_batches():
            for row in plain_rows(batch):
                write_data(orjson.dumps(row) + b"\n")
        sys.stdout.flush()
