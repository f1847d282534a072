"""Sinks of stateful pipelines: results that change are merged by key, and the batch that they hold is the position.

Guarantee: exactly once. Rows and position move in one step. A batch that runs again finds its own position and changes
nothing; one that does not follow the position is refused, and the pipeline stops.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from penstock.errors import Conflict, PipelineHalted, SinkUnavailable
from penstock.record.positions import SourcePartition, require_unmoved
from penstock.sinks.console import Console
from penstock.sinks.delta import Delta, is_table, make_table, table_lock
from penstock.sinks.delta_demands import require_plain
from penstock.sinks.delta_restore import Restores
from penstock.sinks.postgres import Postgres
from penstock.sinks.postgres_positions import Row
from penstock.sinks.postgres_refusals import is_of_the_definition, may_be_of_a_row, refusal_of
from penstock.sinks.postgres_server import outage_is_transient
from penstock.sinks.postgres_types import column_type, row_values
from penstock.sinks.rows import plain_rows
from penstock.terminal import write_data

STATE = SourcePartition("state", "state", 0)
_ATTEMPTS = 10
_NUMBER = "_row"
_TRANSACTION = "SELECT txid_current() & (2::bigint ^ 32 - 1)::bigint"


class MergingSink(ABC):
    """Takes the changed results of one batch."""

    keeps_position = True

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def position(self) -> int | None:
        """Return what identifies the last batch that was written; None if nothing ever was."""

    @abstractmethod
    def merge(self, rows: ds.Dataset, expected: int | None, following: int) -> None:
        """Write the rows and move the position from `expected` to `following`, in one step."""

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Let go of connections; called once, also after a failure."""


def newest(rows: ds.Dataset, key: list[str]) -> pa.RecordBatchReader:
    """Keep the last row of each key: a batch may change one result several times. Only keys are held in memory."""
    keys = rows.to_table(columns=key)
    numbered = keys.append_column(_NUMBER, pa.array(np.arange(keys.num_rows)))
    grouped = numbered.group_by(key).aggregate([(_NUMBER, "max")])
    last = np.sort(grouped.column(f"{_NUMBER}_max").to_numpy())

    def kept() -> Iterator[pa.RecordBatch]:
        start = 0
        for batch in rows.to_batches():
            first, end = np.searchsorted(last, [start, start + batch.num_rows])
            if first < end:
                yield batch.take(pa.array(last[first:end] - start))
            start += batch.num_rows

    return pa.RecordBatchReader.from_batches(rows.schema, kept())


class DeltaMerge(MergingSink):
    """Merges into a Delta table."""

    def __init__(self, spec: Delta, name: str, pipeline: str) -> None:
        super().__init__(name)
        self._spec = spec
        self._pipeline = pipeline
        self._restores = Restores(spec.path, pipeline, name)
        self._app = self._restores.app(STATE.topic_id, STATE.partition)

    def _table(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(str(self._spec.path)) if is_table(self._spec.path) else None

    def position(self) -> int | None:
        """Read it from the table's log."""
        table = self._table()
        return self._position(table) if table is not None else None

    def _position(self, table: Any) -> int | None:
        return self._restores.positions(table, frozenset({self._app})).get(self._app)

    def merge(self, rows: ds.Dataset, expected: int | None, following: int) -> None:
        """Make one commit; another writer in between means comparing anew."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        is_empty = not rows.count_rows()
        make_table(self._spec.path, rows.schema, self._pipeline)
        # Each in brackets: the parser would take AND for a part of what is compared with.
        matching = " AND ".join(f'(target."{name}" IS NOT DISTINCT FROM source."{name}")' for name in self._spec.key)
        with table_lock(self._spec.path):
            for _ in range(_ATTEMPTS):
                table = self._table()
                require_plain(table, self._spec.path, rows.schema, in_partitions=True)
                found = self._position(table)
                require_unmoved(self.name, {STATE: expected}, {} if found is None else {STATE: found})
                moves = {**self._restores.stale(table), self._app: following}
                properties = CommitProperties(
                    max_commit_retries=0,
                    app_transactions=[Transaction(app, version) for app, version in moves.items()],
                )
                try:
                    if not is_empty:
                        source = newest(rows, self._spec.key)
                        merger = table.merge(source, matching, "source", "target", commit_properties=properties)
                        merger.when_matched_update_all().when_not_matched_insert_all().execute()
                    else:  # a merge of nothing would make no commit, and so not move the position
                        table.create_write_transaction([], "append", table.schema(), commit_properties=properties)
                except CommitFailedError:
                    continue
                return
        raise SinkUnavailable(f"the table {self._spec.path} is being changed too often for a commit to get in between")


class PostgresMerge(MergingSink):
    """Merges into a PostgreSQL table."""

    def __init__(self, spec: Postgres, name: str, pipeline: str) -> None:
        super().__init__(name)
        self._spec = spec
        self._sink = spec.sink(name, pipeline, has_coordinates=False)
        self._address = f"{spec.server.host}:{spec.server.port}"

    def position(self) -> int | None:
        """Read it from the table of positions."""
        return (self._sink.positions([STATE]) or {}).get(STATE)

    def merge(self, rows: ds.Dataset, expected: int | None, following: int) -> None:
        """Copy into a temporary table and merge from there, in one transaction with the position."""
        from psycopg import errors, sql

        self._sink.make_tables(rows.schema)
        columns = sql.SQL(", ").join(map(sql.Identifier, rows.schema.names))
        key = sql.SQL(", ").join(map(sql.Identifier, self._spec.key))
        changes = sql.SQL(", ").join(
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in rows.schema.names
        )
        made = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(column_type(field.type)))
            for field in rows.schema
        )
        merging = "INSERT INTO {} ({}) SELECT {} FROM penstock_changes ON CONFLICT ({}) DO UPDATE SET {}"
        with (
            outage_is_transient(self._address),
            self._refusals_are_named(),
            self._spec.server.connect() as connection,
        ):
            self._sink.hold_table(connection)
            # Results have no coordinates: they are known by the transaction that wrote them, which VACUUM leaves alone.
            (number,) = connection.execute(_TRANSACTION).fetchone() or (0,)
            last = Row(STATE.topic_id, STATE.partition, number) if rows.count_rows() else None
            self._sink.move_position(connection, STATE, expected, following, last)
            connection.execute(sql.SQL("CREATE TEMPORARY TABLE penstock_changes ({}) ON COMMIT DROP").format(made))
            with connection.cursor().copy(sql.SQL("COPY penstock_changes ({}) FROM STDIN").format(columns)) as copy:
                for batch in newest(rows, self._spec.key):
                    for row in row_values(batch):
                        copy.write_row(row)
            try:
                connection.execute(sql.SQL(merging).format(self._sink.table, columns, columns, key, changes))
                connection.execute("SET CONSTRAINTS ALL IMMEDIATE")  # a commit that fails leaves its connection open
            except errors.InvalidColumnReference:
                raise Conflict(
                    f"the table {self._spec.table} has no unique index on ({', '.join(self._spec.key)})",
                    safe="Nothing was written",
                    fix="Make one; an upsert needs it",
                ) from None

    def close(self) -> None:
        """Close the connection."""
        self._sink.close()

    @contextmanager
    def _refusals_are_named(self) -> Iterator[None]:
        """Stop at a row that the table refuses: a result has no record that could be a dead letter."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            if not may_be_of_a_row(error) or is_of_the_definition(error):
                raise
            raise PipelineHalted(
                f"the table {self._spec.table} refuses a row of the results: {refusal_of(error)['message']}",
                safe="Nothing of this batch was written to it, and its position stays",
                fix="Change the table or the query, then run the pipeline again",
            ) from None


class ConsoleMerge(MergingSink):
    """Prints the changes; at least once."""

    keeps_position = False

    def __init__(self, spec: Console, name: str) -> None:
        super().__init__(name)
        self._limit = spec.rows

    def position(self) -> int | None:
        """Return none: the terminal keeps no position."""
        return None

    def merge(self, rows: ds.Dataset, _expected: int | None, _following: int) -> None:
        """Print."""
        import sys

        import orjson

        for batch in rows.head(self._limit).to_batches():
            for row in plain_rows(batch):
                write_data(orjson.dumps(row) + b"\n")
        sys.stdout.flush()


def merging_sink(model: Any, name: str, pipeline: str) -> MergingSink:
    """Make the sink for a model that a stateful pipeline may have."""
    if isinstance(model, Delta):
        return DeltaMerge(model, name, pipeline)
    return PostgresMerge(model, name, pipeline) if isinstance(model, Postgres) else ConsoleMerge(model, name)
