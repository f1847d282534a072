"""One Iceberg table in its catalog: found, made, and looked at again before each commit."""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.delivery.durable import make_folder
from penstock.errors import Conflict, PositionLost
from penstock.record.formats import ICEBERG_TABLE, KEY, require_format, version_in
from penstock.sinks.delta_columns import holds
from penstock.sinks.delta_table import table_lock
from penstock.sinks.iceberg_catalog import UNSURE, asked, found_in, make_catalog, open_catalog
from penstock.sinks.iceberg_files import is_local, local_path
from penstock.sinks.iceberg_partitions import partition_spec, require_same_partitions
from penstock.sinks.iceberg_schema import arrow_schema, can_widen, held, iceberg_schema, iceberg_type, plain
from penstock.sinks.partitioning import require_possible
from penstock.sinks.schema_change import SchemaChange, require_kept, required_change

if TYPE_CHECKING:
    from penstock.sinks.iceberg import Iceberg

FORMAT_PROPERTY = f"penstock.{KEY}"
_MADE_WITH = {
    FORMAT_PROPERTY: str(ICEBERG_TABLE),
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


class IcebergTable:
    """The table that a sink writes to."""

    def __init__(self, spec: "Iceberg", pipeline: str) -> None:
        self.path = spec.path.resolve()
        self._spec = spec
        self._pipeline = pipeline
        self._catalog: Any = None
        self._schema: pa.Schema = None
        self._id: Any = None
        """The table's own, which no other of its name has."""
        self.change = SchemaChange()
        """What the next commit does to the columns."""
        self.file_schema: pa.Schema = None
        """The columns of files, in the pipeline's order, with the ids that the table has or will have for them."""
        self._what = f"the table {spec.path}"

    def reach(self) -> None:
        """Connect to the catalog; one that is a file may not be there yet."""
        if self._catalog is None and self._spec.catalog.is_there(self.path):
            self._catalog = open_catalog(self._spec.catalog, self.path)

    def close(self) -> None:
        """Let go of the catalog."""
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None

    def asked(self) -> AbstractContextManager[None]:
        """Turn the catalog's errors into ours."""
        return asked(self._spec.catalog, self.path)

    def committed(self) -> AbstractContextManager[None]:
        """Turn the catalog's errors into ours, which do not tell whether a commit got through."""
        return asked(self._spec.catalog, self.path, UNSURE)

    def require_fitting(self, schema: Callable[[], pa.Schema]) -> SchemaChange | None:
        """Raise what `make` would raise of a table that is there; return what will change in it, None if it is not."""
        self.reach()
        table = self.find()
        if table is None:
            if self._spec.partition_by:
                require_possible(self._spec.partition_by, schema())
            return None
        self._look(table, schema())
        return self.change

    def make(self, schema: pa.Schema) -> None:
        """Make the table, unless it is there; raise `Conflict` if it cannot take these columns."""
        require_possible(self._spec.partition_by, schema)
        columns = iceberg_schema(schema)
        if self._catalog is None:
            self._catalog = open_catalog(self._spec.catalog, self.path)
        with self.asked():
            make_catalog(self._catalog)
        make_folder(self.path)
        with table_lock(self.path):
            table = self.find()
            if table is None:
                table = self._create(columns)
        self._look(table, schema)
        self._id = table.metadata.table_uuid

    def find(self) -> Any:
        """Return the table; None if there is none. Raise `Conflict` if there is another in its place."""
        from pyiceberg.exceptions import NoSuchTableError

        if (self.path / "_delta_log").is_dir():
            raise self._conflict(f"{self.path} holds a Delta table", "Write to another path, or say `type: delta`")
        try:
            with self.asked():
                table = found_in(self._catalog, self._spec.identifier)
        except NoSuchTableError:
            if self._has_metadata:
                raise self._conflict(
                    f"{self.path} holds an Iceberg table that the catalog {self._shown} does not name"
                    f" {self._spec.identifier}",
                    "Write to another path, register the table there, or, if it was dropped, remove the folder",
                ) from None
            return None
        except FileNotFoundError:
            # Its folder was removed, as one drops a table of files; only the catalog of our own is put right.
            if self._spec.catalog.url is not None:
                raise self._conflict(
                    f"the catalog {self._shown} names {self._spec.identifier}, whose metadata are gone",
                    "Drop it there, or name another `table`",
                ) from None
            if self._has_metadata:  # of an older version: recreating the table would lose its rows
                raise self._conflict(
                    f"the newest metadata of the Iceberg table in {self.path} are gone, and older ones are there",
                    "Put the file back that the catalog names, or register the newest that there is; to recreate the"
                    " table, remove the folder",
                ) from None
            self._catalog.drop_table(self._spec.identifier)
            return None
        location = table.location()
        if not is_local(location) or local_path(location) != str(self.path):
            raise self._conflict(
                f"the catalog {self._shown} has {self._spec.identifier} at {location}, not at {self.path}",
                "Name that folder with `path`, or another `table`",
            )
        self._require_understood(table)
        return table

    @property
    def _has_metadata(self) -> bool:
        return any((self.path / "metadata").glob("*.metadata.json"))

    def _require_understood(self, table: Any) -> None:
        """Raise if a newer Penstock has written what the table has of ours."""
        found = table.properties.get(FORMAT_PROPERTY)
        if found is not None:
            otherwise = f"set its property `{FORMAT_PROPERTY}` back if somebody changed it, or write to another path"
            require_format(self._what, version_in(found), ICEBERG_TABLE, otherwise=otherwise)

    def _create(self, columns: Any) -> Any:
        from pyiceberg.exceptions import NamespaceAlreadyExistsError, TableAlreadyExistsError

        namespace = self._spec.identifier.rpartition(".")[0]
        with self.asked():
            with suppress(NamespaceAlreadyExistsError):
                self._catalog.create_namespace(namespace)
            try:
                return self._catalog.create_table(
                    self._spec.identifier,
                    columns,
                    location=f"file://{self.path}",
                    partition_spec=partition_spec(self._spec.partition_by, columns),
                    properties=_MADE_WITH,
                )
            except TableAlreadyExistsError:
                return self._catalog.load_table(self._spec.identifier)

    @property
    def _shown(self) -> str:
        return self._spec.catalog.shown(self.path)

    def load(self) -> Any:
        """Return the table; raise `PositionLost` if it is gone or another one, and `Conflict` if a column is gone."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            with self.asked():
                table = self._catalog.load_table(self._spec.identifier)
        except (NoSuchTableError, FileNotFoundError):
            table = None
        if table is None or table.metadata.table_uuid != self._id:
            raise PositionLost(
                f"{self._what} was dropped or replaced while the pipeline ran",
                safe="Nothing was written",
                fix=f"To fill it again from the source's start, run: penstock pipeline rebuild {self._pipeline}",
            )
        before = self.change
        self._look(table, self._schema)
        require_kept(self._what, before, self.change)
        return table

    def _look(self, table: Any, schema: pa.Schema) -> None:
        """Take note of what the table lacks; raise `Conflict` if it cannot take rows of this schema."""
        self._schema = schema
        self._require_understood(table)
        self._require_plain(table, schema)
        require_same_partitions(table, self._spec.partition_by, self._what)
        self.change = required_change(
            self._what,
            plain(arrow_schema(table.schema())),
            held(schema),
            new_columns=self._spec.new_columns,
            widens=can_widen,
            holds=holds,
        )
        changed = arrow_schema(self.changed(table.transaction()).table_metadata.schema())
        self.file_schema = pa.schema([changed.field(name) for name in schema.names])

    def changed(self, transaction: Any) -> Any:
        """Let a transaction add and widen the columns that have to be; return it."""
        if self.change:
            with transaction.update_schema() as update:
                for field in self.change.added:
                    update.add_column((field.name,), iceberg_type(field))  # as text, a dot would be a way into it
                for field, kind in self.change.widened:
                    update.update_column((field.name,), field_type=iceberg_type(field.with_type(kind)))
        return transaction

    def _require_plain(self, table: Any, schema: pa.Schema) -> None:
        """Raise if the table requires of its writers what Penstock does not support."""
        for field in table.schema().fields:
            if field.required and (field.name not in schema.names or schema.field(field.name).nullable):
                raise self._conflict(
                    f"{self._what} takes no nulls in the column '{field.name}', and the pipeline may make some",
                    "Make the column optional, or write to another path",
                )
        if not table.sort_order().is_unsorted:
            raise self._conflict(f"{self._what} has a sort order, and Penstock writes none", "Write to another path")

    @staticmethod
    def _conflict(what: str, fix: str) -> Conflict:
        return Conflict(what, safe="Nothing was written", fix=fix)
