"""Merging the rows of a batch into a Delta table by key, in one commit with the positions."""

import functools
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.record.columns import CHANGE, COORDINATES
from penstock.record.decoded import RecordError
from penstock.sinks.changes import (
    RecordId,
    fold,
    is_deleted,
    refused,
    several_partitions,
    unchanged_columns,
    unknown_values,
)
from penstock.sinks.delta_stats import library_settings
from penstock.sinks.moved import Key
from penstock.sinks.table_files import all_readable

_IS_DELETED = "_is_deleted"
_LOCAL_TIMES = "timestampNtz"
_NEWER = (
    "((target._topic_id IS DISTINCT FROM source._topic_id) OR (target._partition IS DISTINCT FROM source._partition)"
    " OR (target._offset IS NULL) OR (target._offset < source._offset))"
)
"""Also of rows without coordinates, which somebody else has put in."""


def upsert(table: Any, rows: pa.Table, key: list[str], what: str, properties: Any) -> None:
    """Make one commit: each key's newest row comes in or goes, and columns that the table lacks come with the rows.

    A row never gives way to an older record of the same partition.
    """
    if CHANGE.name not in rows.schema.names:
        nothing: dict[str, Any] = {"op": None, "unchanged": [], "moved_from": None}
        rows = rows.append_column(CHANGE, pa.array([nothing] * rows.num_rows, CHANGE.type))
    folded = fold(rows, key, what, lambda keys, names: _rows_of(table, what, rows, key, keys, names))
    _require_one_partition(table, folded.truncated, what)
    source = folded.rows.drop_columns([CHANGE.name])
    names = source.schema.names
    known = {field.name for field in table.schema().fields}
    _allow_local_times(table, [field.type for field in source.schema if field.name not in known])
    values = {name: f"source.{_quoted(name)}" for name in names}
    updates = dict(values)
    if folded.rows.num_rows:
        source = source.append_column(_IS_DELETED, is_deleted(folded.rows))
        for number, (name, rows_without) in enumerate(unchanged_columns(folded.rows)):
            source = source.append_column(f"_unchanged_{number}", rows_without)
            before = f"target.{_quoted(name)}" if name in known else "NULL"
            updates[name] = f"CASE WHEN source._unchanged_{number} THEN {before} ELSE {values[name]} END"
    else:
        source = source.append_column(_IS_DELETED, pa.array([], pa.bool_()))
    version = table.version()
    merger = table.merge(
        source,
        same_key(key),
        "source",
        "target",
        merge_schema=any(name not in known for name in names),
        commit_properties=properties,
        writer_properties=library_settings(source.schema),
    )
    merger = (
        merger.when_matched_delete(f"source.{_IS_DELETED} AND {_NEWER}")
        .when_matched_update(_targets(updates), f"NOT source.{_IS_DELETED} AND {_NEWER}")
        .when_not_matched_insert(_targets(values), f"NOT source.{_IS_DELETED}")
    )
    for topic_id, (_, offset) in folded.truncated.items():
        merger = merger.when_not_matched_by_source_delete(
            f"target._topic_id = '{topic_id}' AND target._offset < {offset}"
        )
    merger.execute()
    if table.version() == version:  # a merge that changes nothing makes no commit, and would not move the positions
        table.create_write_transaction([], "append", table.schema(), commit_properties=properties)


def refused_changes(table: Any, rows: pa.Table, key: list[str], what: str) -> dict[RecordId, RecordError]:
    """Return the changes that the table cannot take: their key is not known, or a value that they leave out."""
    unknown = unknown_values(rows, key, what, lambda keys, names: _rows_of(table, what, rows, key, keys, names))
    wanted = {name for each in unknown.values() for name in each}
    return refused(rows, unknown, key, _rows_of(table, what, rows, key, list(unknown), wanted) if unknown else ())


def _rows_of(
    table: Any, what: str, rows: pa.Table, key: list[str], keys: list[Key], names: set[str]
) -> list[dict[str, Any]]:
    """Read the rows of the table with these keys, and some others, with the columns that it has of these.

    Of each file the keys are read first. Arrow cannot compare texts in files that a merge has written, so files are not
    left out by them.
    """
    import pyarrow.dataset as ds

    known = {field.name for field in table.schema().fields}
    asked = {
        name: pa.array(values, rows.schema.field(name).type)
        for name, values in zip(key, zip(*keys, strict=True), strict=True)
    }
    condition = ds.scalar(True)  # noqa: FBT003
    for name, values in asked.items():
        if not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
            condition &= ds.field(name).isin(values)
    dataset = table.to_pyarrow_dataset()
    found = list[dict[str, Any]]()
    with all_readable(what):
        for fragment in dataset.get_fragments(condition):
            there = fragment.to_table(schema=dataset.schema, columns=key)
            masks = [pc.is_in(there.column(name), value_set=values) for name, values in asked.items()]
            mask = functools.reduce(pc.and_, masks)
            if pc.any(mask).as_py():
                columns = list({*key, *COORDINATES, *(names & known)})
                found += fragment.to_table(schema=dataset.schema, columns=columns).filter(mask).to_pylist()
    return found


def _require_one_partition(table: Any, truncated: dict[str, tuple[int, int]], what: str) -> None:
    """Raise if rows of a topic that was truncated came from another partition: they may be older, or newer."""
    import pyarrow.dataset as ds

    for topic_id, (partition, offset) in truncated.items():
        others = (ds.field("_topic_id") == topic_id) & (ds.field("_partition") != partition)
        if table.to_pyarrow_dataset().count_rows(filter=others):
            raise several_partitions(what, partition, offset)


def _allow_local_times(table: Any, added: list[pa.DataType]) -> None:
    """Let a table have times without a zone before it gets a column of them: a merge adds the column alone.

    A commit of its own, on the snapshot that was compared, or none: it changes neither rows nor positions.
    """
    from deltalake import CommitProperties, TableFeatures

    allowed = table.protocol().writer_features or []
    if any(map(_has_local_times, added)) and _LOCAL_TIMES not in allowed:
        table.alter.add_feature(
            TableFeatures.TimestampWithoutTimezone,
            allow_protocol_versions_increase=True,
            commit_properties=CommitProperties(max_commit_retries=0),
        )


def _has_local_times(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    return any(_has_local_times(kind.field(number).type) for number in range(kind.num_fields))


def same_key(key: list[str]) -> str:
    """Return the condition that a row of the table and one of the batch have the same key."""
    # Each in brackets: the parser would take AND for a part of what is compared with.
    return " AND ".join(f"(target.{_quoted(name)} IS NOT DISTINCT FROM source.{_quoted(name)})" for name in key)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _targets(values: dict[str, str]) -> dict[str, str]:
    return {f"target.{_quoted(name)}": value for name, value in values.items()}
