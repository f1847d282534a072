"""Merging the results of a stateful pipeline into a PostgreSQL table, in one transaction with the position."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.dataset as ds

from penstock.errors import PipelineHalted
from penstock.sinks.changes import require_key
from penstock.sinks.merging import STATE, MergeContext, MergingSink, newest
from penstock.sinks.postgres import Postgres, PostgresSink
from penstock.sinks.postgres_refusals import (
    is_of_the_definition,
    may_be_of_a_row,
    refusal_of,
    without_index_explained,
)
from penstock.sinks.postgres_rows import Row
from penstock.sinks.postgres_server import outage_is_transient
from penstock.sinks.postgres_table import text_limits
from penstock.sinks.postgres_types import column_type, require_kept_blanks, row_values
from penstock.sinks.schema_change import SchemaChange

_TRANSACTION = "SELECT txid_current() & (2::bigint ^ 32 - 1)::bigint"


class PostgresMerge(MergingSink):
    """Merges into a PostgreSQL table."""

    def __init__(self, spec: Postgres, context: MergeContext) -> None:
        super().__init__(context.name)
        self._spec = spec
        self._sink = PostgresSink(spec, context.name, context.pipeline, has_coordinates=False)
        self._address = f"{spec.server.host}:{spec.server.port}"

    def require_fitting(self, schema: pa.Schema) -> SchemaChange | None:
        """Compare the columns of a table that is there."""
        require_key(self.name, self._spec.key, schema)
        return self._sink.require_fitting(lambda: schema)

    def position(self) -> int | None:
        """Read it from the table of positions."""
        return (self._sink.positions([STATE]) or {}).get(STATE)

    def merge(self, rows: ds.Dataset, expected: int | None, following: int) -> None:
        """Copy into a temporary table and merge from there, in one transaction with the position."""
        from psycopg import sql

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
            self._sink.hold_table(connection, adding=True)
            limits = text_limits(connection, self._sink.table)
            # Results have no coordinates: they are known by the transaction that wrote them, which VACUUM leaves alone.
            (number,) = connection.execute(_TRANSACTION).fetchone() or (0,)
            last = Row(STATE.topic_id, STATE.partition, number) if rows.count_rows() else None
            self._sink.move_position(connection, STATE, expected, following, last)
            connection.execute(sql.SQL("CREATE TEMPORARY TABLE penstock_changes ({}) ON COMMIT DROP").format(made))
            with connection.cursor().copy(sql.SQL("COPY penstock_changes ({}) FROM STDIN").format(columns)) as copy:
                for batch in newest(rows, self._spec.key):
                    require_kept_blanks(batch, limits)
                    for row in row_values(batch):
                        copy.write_row(row)
            with without_index_explained(self._spec.table, self._spec.key):
                connection.execute(sql.SQL(merging).format(self._sink.table, columns, columns, key, changes))
                connection.execute("SET CONSTRAINTS ALL IMMEDIATE")  # a commit that fails leaves its connection open

    def close(self) -> None:
        """Close the connection."""
        self._sink.close()

    @contextmanager
    def _refusals_are_named(self) -> Iterator[None]:
        """Stop at a row that the table refuses: a result has no record that could be a dead letter."""
        import psycopg

        try:
            yield
        except (psycopg.Error, ValueError) as error:
            if isinstance(error, psycopg.Error) and (not may_be_of_a_row(error) or is_of_the_definition(error)):
                raise
            reason = refusal_of(error)["message"] if isinstance(error, psycopg.Error) else str(error)
            raise PipelineHalted(
                f"the table {self._spec.table} refuses a row of the results: {reason}",
                safe="Nothing of this batch was written to it, and its position stays",
                fix="Change the table or the query, then run the pipeline again",
            ) from None
