"""The columns that Penstock adds to every event, beside those of the user.

Names that begin with an underscore belong to Penstock. They travel through every step, so that each row knows
which record it came from, and each failed row still has that record byte for byte.
"""

import pyarrow as pa

HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
ERROR = pa.struct([(name, pa.string()) for name in ("stage", "error", "message", "line")])

RESERVED = pa.schema(
    [
        ("_topic", pa.string()),
        ("_topic_id", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        # Null where no calendar has it, or the record has none. What Kafka has, whatever it is, is `_timestamp_ms`.
        ("_timestamp", pa.timestamp("us", tz="UTC")),
        ("_timestamp_ms", pa.int64()),
        ("_key", pa.binary()),
        ("_value", pa.binary()),
        ("_headers", HEADERS),
        # Where the record stands in what this batch reads. Other than `_offset` only when dead letters are replayed.
        ("_at", pa.int64()),
        ("_attempt", pa.int32()),
        # The one sink that a replayed dead letter is for; all sinks if null.
        ("_sink", pa.string()),
        ("_error", ERROR),
    ]
)
CHANGE = pa.field(
    "_change",
    pa.struct([("op", pa.string()), ("unchanged", pa.list_(pa.string())), ("moved_from", pa.int64())]),
)
"""Beside the columns of a row that changes a table: what it does, if it is no new or changed row; the columns whose
values it does not know because they stay as they are; and of a row that got another key the offset of the record in the
same partition that takes the old row out."""
DELETE = "delete"
TRUNCATE = "truncate"

COORDINATES = ("_topic_id", "_partition", "_offset")
"""The reserved columns that sinks write beside the user's: together they name a record for good."""

SUMMARY = "task_summary"
"""The stage of a row that is not an event: a summary of what a task read, for the end of the task."""


def whole_schema(columns: pa.Schema) -> pa.Schema:
    """Append Penstock's columns to the user's. Any may be null, because a failed row has no values."""
    return pa.schema([*(each.with_nullable(True) for each in columns), *RESERVED])  # noqa: FBT003


def whole_rows(columns: list[pa.Array], records: pa.RecordBatch, errors: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    """Put the user's columns, the columns of the records that they come from, and the errors together."""
    reserved = [records.column(name) for name in RESERVED.names if name != "_error"]
    return pa.RecordBatch.from_arrays([*columns, *reserved, errors], schema=schema)


def user_columns(names: list[str]) -> list[str]:
    """Return the columns that are the user's own."""
    return [name for name in names if not name.startswith("_")]


def rule_column(number: int) -> str:
    """Name the column that says whether a row meets an expectation."""
    return f"_rule_{number}"


def where_column(number: int) -> str:
    """Name the column that says whether a row meets a sink's condition."""
    return f"_to_{number}"
