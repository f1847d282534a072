"""What a Delta table may require of its writers; what Penstock does not support is refused before it writes.

Files are added to the log as they are, so nothing would enforce constraints or compute generated columns; and a table
whose features the library does not know can be written to in its own tools only.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.errors import Conflict
from penstock.sinks.delta_partitions import Partitions

_KEPT = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
    }
)
_LISTS_FEATURES = 7
_NEWEST_KEPT = 4  # 5 brings column mapping, 6 identity columns
_COMPUTED = ("delta.generationExpression", "delta.identity.start")


def require_plain(table: Any, path: Path, schema: pa.Schema, *, replaces: bool = False) -> None:
    """Raise `Conflict` if rows of this schema cannot be written as the table wants them.

    `replaces` says that rows are taken out, too.
    """
    reasons = chain(
        _in_settings(table.metadata(), replaces=replaces),
        _in_columns(table.schema().fields, schema),
        _in_protocol(table.protocol()),
    )
    for reason in reasons:
        raise Conflict(
            f"the table {path} {reason}",
            safe="Nothing was written",
            fix="Write to another path, and let the table be made there",
        )


def require_partitioned(table: Any, what: str, partitions: Partitions) -> None:
    """Raise `Conflict` if the table is partitioned otherwise than the pipeline writes it."""
    there = list(table.metadata().partition_columns)
    if there == partitions.names:
        return
    is_so = f"is partitioned by {', '.join(there)}" if there else "is not partitioned"
    says = f"`partition_by` says {partitions}" if partitions.names else "the pipeline has no `partition_by`"
    fix = f"Say `partition_by: [{', '.join(there)}]`" if there else "Leave `partition_by` out"
    raise Conflict(
        f"{what} {is_so}, and {says}",
        safe="Nothing was written",
        fix=f"{fix}, or write to another path, and let the table be made there",
    )


def _in_settings(metadata: Any, *, replaces: bool) -> Iterator[str]:
    for name, value in metadata.configuration.items():
        if name.startswith("delta.constraints."):
            yield f"has the constraint '{name.removeprefix('delta.constraints.')}' ({value}), which nobody would check"
        if (name, value) == ("delta.appendOnly", "true") and replaces:
            yield "is append-only: no row of it can be replaced"
        if name == "delta.setTransactionRetentionDuration":
            yield f"forgets positions after a while ({name} is '{value}'), and would be written twice"


def _in_columns(fields: list[Any], schema: pa.Schema) -> Iterator[str]:
    for field in fields:
        if any(name in field.metadata for name in _COMPUTED):
            yield f"computes the column '{field.name}' itself"
        if "delta.invariants" in field.metadata:
            yield f"has a condition on the column '{field.name}', which nobody would check"
        if not field.nullable and field.name in schema.names and schema.field(field.name).nullable:
            yield f"takes no nulls in the column '{field.name}', and the pipeline may make some"


def _in_protocol(protocol: Any) -> Iterator[str]:
    version = protocol.min_writer_version
    if _NEWEST_KEPT < version < _LISTS_FEATURES:
        yield f"asks for version {version} of Delta's protocol, and Penstock keeps {_NEWEST_KEPT}"
    for feature in sorted({*(protocol.writer_features or ()), *(protocol.reader_features or ())} - _KEPT):
        yield f"asks for the feature '{feature}' of Delta, which Penstock does not keep"
