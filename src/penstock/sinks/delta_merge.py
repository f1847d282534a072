"""Merging the results of a stateful pipeline into a Delta table, in one commit with the position."""

from typing import Any

import pyarrow.dataset as ds

from penstock.errors import SinkUnavailable
from penstock.record.positions import require_unmoved
from penstock.sinks.delta import Delta, is_table, make_table, table_lock
from penstock.sinks.delta_demands import require_plain
from penstock.sinks.delta_format import mark_as_ours, require_understood
from penstock.sinks.delta_restore import Restores
from penstock.sinks.merging import STATE, MergeContext, MergingSink, newest

_ATTEMPTS = 10


class DeltaMerge(MergingSink):
    """Merges into a Delta table."""

    def __init__(self, spec: Delta, context: MergeContext) -> None:
        super().__init__(context.name)
        self._spec = spec
        self._pipeline = context.pipeline
        self._restores = Restores(spec.path, context.pipeline, context.name)
        self._app = self._restores.app(STATE.topic_id, STATE.partition)

    def _table(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(str(self._spec.path)) if is_table(self._spec.path) else None

    def position(self) -> int | None:
        """Read it from the table's log."""
        table = self._table()
        return self._position(table) if table is not None else None

    def _position(self, table: Any) -> int | None:
        found = self._restores.positions(table, frozenset({self._app}))
        require_understood(table, self._spec.path, is_ours=bool(found))
        return found.get(self._app)

    def merge(self, rows: ds.Dataset, expected: int | None, following: int) -> None:
        """Make one commit; another writer in between means comparing anew."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        is_empty = not rows.count_rows()
        make_table(self._spec.path, rows.schema, self._pipeline)
        # Each in brackets: the parser would take AND for a part of what is compared with.
        matching = " AND ".join(f'(target."{name}" IS NOT DISTINCT FROM source."{name}")' for name in self._spec.key)
        with table_lock(self._spec.path):
            self.position()
            mark_as_ours(self._table())
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
