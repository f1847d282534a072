"""Changes of a database table, as Debezium writes them to a topic, become rows.

Guarantee: with `cdc: state` a sink with a key has the rows that the source table has, up to the change that was read
last: rows are inserted, replaced and deleted by key, exactly once, in the order of each key; a value that a change
leaves out because it stayed the same (TOAST) is kept, also in a row that gets another key, and a truncate deletes all
rows that came before it. With `cdc: history` every change is a row of its own. A record that is no change, or whose
values do not fit, is a dead letter. Tombstones, which only matter to Kafka, are dropped. With `new_columns: add` a
column that is added to the source table becomes one of the sinks' tables while the pipeline runs.

Needs `decode: {type: raw}`, and a topic in which all changes of a key are in one partition, as Debezium writes it; for
truncates a topic of one partition.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator, model_validator

from penstock.config.problem import PipelineView, Problem
from penstock.errors import SchemaChanged
from penstock.record.columns import CHANGE, DELETE, ERROR, RESERVED, SUMMARY, TRUNCATE, whole_rows
from penstock.record.decoded import RecordError, columns_of, record_error
from penstock.record.manifest import TaskSummary
from penstock.record.schema import parse
from penstock.steps.debezium import (
    Change,
    Converter,
    Debezium,
    NoChange,
    converter,
    is_of_arrays,
    is_unavailable,
    passes_for_another,
)
from penstock.steps.fitting import SchemaMismatch, requirement
from penstock.steps.step import StepContext, StepModel

HISTORY = pa.schema(
    [
        ("change_type", pa.string()),
        ("change_at", pa.timestamp("us", tz="UTC")),
        ("change_lsn", pa.int64()),
        ("change_unknown", pa.list_(pa.string())),
    ]
)
"""Beside the columns of the table: insert, snapshot, update, delete or truncate; when it was committed; where it stands
in the log of the database; the columns whose values the change does not hold."""


class Cdc(StepModel, frozen=True):
    """Changes of a database table, as Debezium writes them; the last step, or before SQL with `cdc: history`."""

    keyword = "cdc"

    cdc: Literal["state", "history"] = Field(
        description="`state`: sinks with a key hold the table as it is; `history`: each change becomes a row, with"
        " `change_type`, `change_at`, `change_lsn` and `change_unknown` beside the table's columns."
    )
    table: str = Field(
        alias="schema",
        description="Columns of the table as in Spark SQL: `id bigint NOT NULL, at timestamp`.",
    )
    new_columns: Literal["add", "leave_out"] = Field(
        "leave_out",
        description="What happens to columns that `schema` does not name: they are left out, or added while the"
        " pipeline runs, with the types that the records' own schemas tell.",
    )

    @field_validator("table")
    @classmethod
    def _schema_is_understood(cls, value: str) -> str:
        parse(value)
        return value

    @model_validator(mode="after")
    def _no_name_twice(self) -> Self:
        taken = [name for name in parse(self.table).names if name.lower() in HISTORY.names]
        if taken and self.cdc == "history":
            raise ValueError(f"the column '{taken[0]}' of the table has the name of one that the history adds")
        return self

    @property
    def makes_changes(self) -> bool:
        """Whether sinks apply the rows by key."""
        return self.cdc == "state"

    def columns(self, names: list[str] | None) -> list[str]:  # noqa: ARG002 - it looks at the record itself
        """Return the columns of the table, and those of the history."""
        return [*parse(self.table).names, *([] if self.makes_changes else HISTORY.names)]

    def with_columns(self, columns: Mapping[str, str]) -> Self:
        """Return the step with the columns that it takes of those which records have brought."""
        if self.new_columns == "leave_out":
            return self
        added = new_columns(self.columns(None), columns)
        return self.model_copy(update={"table": ", ".join([self.table, *added.values()])})

    def problems(self, pipeline: PipelineView, names: list[str] | None) -> Iterator[Problem]:  # noqa: ARG002 - as all
        """Find a decoder that has looked at the record already: whatever it refuses would never get here."""
        if names is not None and names != ["value"]:
            yield Problem.error("changes are read from the record as it is: say `decode: {type: raw}`", "cdc")

    def open(self, context: StepContext) -> "CdcTask":  # noqa: ARG002 - it needs nothing
        """Return what runs inside Spark's tasks."""
        return CdcTask(self)


class CdcTask:
    """Turns the records of each chunk into rows, in order; failed ones pass by."""

    def __init__(self, spec: Cdc) -> None:
        self._table = parse(spec.table)
        self._is_state = spec.makes_changes
        self._takes_columns = spec.new_columns == "add"
        self._columns = self._table if self._is_state else pa.schema([*self._table, *HISTORY])
        nullable = [each.with_nullable(True) for each in self._columns]  # noqa: FBT003
        self.schema = pa.schema([*nullable, *([CHANGE] if self._is_state else []), *RESERVED])

    def __call__(self, batches: Iterator[pa.RecordBatch], _index: int, /) -> Iterator[pa.RecordBatch]:
        """Return each chunk as rows of the table.

        A task does not end between the two halves of a changed key, unless it began there: the row that is taken out
        has values that the row which is put in may lack. It stops before them, and the next batch has both.
        """
        taken = self._columns.names if self._takes_columns else None
        reading = _Reading(self._table, taken, is_state=self._is_state)
        held: pa.RecordBatch | None = None
        offsets = list[int]()
        """Of the records from the one on whose row is held back."""
        has_begun = False
        for batch in batches:
            good = pc.is_null(batch.column("_error"))
            passing, rows = batch.filter(pc.invert(good)), batch.filter(good)
            if passing.num_rows:
                stages = pc.struct_field(passing.column("_error"), "stage")
                if held is not None and pc.all(pc.equal(stages, SUMMARY)).as_py():
                    yield _ending_before(offsets, passing.column("_error")).row(self.schema)
                else:
                    yield from () if held is None else (held,)
                    blank = [pa.nulls(passing.num_rows, each.type) for each in self.schema][: -len(RESERVED)]
                    yield whole_rows(blank, passing, passing.column("_error"), self.schema)
                held = None
            if not rows.num_rows:
                continue
            made, numbers = self._rows(reading, rows), rows.column("_offset").to_pylist()
            if held is not None and reading.waits_at == offsets[0]:
                offsets += numbers  # nothing but a tombstone
                continue
            yield from () if held is None else (held,)
            held = None
            begins_at = numbers[0] if has_begun else numbers[0] + 1
            if reading.waits_at is not None and not passing.num_rows and reading.waits_at >= begins_at:
                held, made = made.slice(made.num_rows - 1), made.slice(0, made.num_rows - 1)
                offsets = [each for each in numbers if each >= reading.waits_at]
            has_begun = True
            yield made
        yield from () if held is None else (held,)

    def _rows(self, reading: "_Reading", records: pa.RecordBatch) -> pa.RecordBatch:
        record_errors: list[RecordError | None] = [None] * records.num_rows
        rows = list[tuple[Any, ...]]()
        changes = list[dict[str, Any] | None]()
        kept = [True] * records.num_rows
        values, keys = records.column("_value").to_pylist(), records.column("_key").to_pylist()
        for number, (value, key) in enumerate(zip(values, keys, strict=True)):
            row: tuple[Any, ...] = (None,) * len(self._columns)
            said = None
            try:
                change = None if value is None else reading.change(value, key)
                if change is None:
                    kept[number] = False
                else:
                    found, unknown = reading.row(change, (records, number))
                    operation = _operation(change)
                    said = {
                        "op": operation,
                        "unchanged": [] if operation else unknown,
                        "moved_from": reading.moved_from(change, (records, number)),
                    }
                    row = found if self._is_state else (*found, change.kind, change.at_us, change.lsn, unknown)
            except (NoChange, SchemaMismatch) as error:
                reading.waits_at = None
                record_errors[number] = record_error(type(error).__name__, str(error), "step")
            rows.append(row)
            changes.append(said)
        columns = columns_of(self._columns, rows, record_errors, [], "step").columns
        change_columns = [pa.array(changes, CHANGE.type)] if self._is_state else []
        whole = whole_rows([*columns, *change_columns], records, pa.array(record_errors, ERROR), self.schema)
        return whole if all(kept) else whole.filter(pa.array(kept))


def _ending_before(offsets: list[int], errors: pa.Array) -> TaskSummary:
    """Return what a task says of its end, without the records of these offsets, the last that it read."""
    summary = TaskSummary().with_rows(errors)
    read = {start: count - sum(each >= start for each in offsets) for start, count in summary.read.items()}
    return msgspec.structs.replace(summary, read=read, end=offsets[0])


def new_columns(taken: Sequence[str], types: Mapping[str, str | None]) -> dict[str, str]:
    """Return what a table can have beside the columns that it has, by name, each as in Spark SQL.

    Left out is what has no type, a name that a table cannot have, and one that differs by capital letters alone.
    """
    names, found = {each.lower() for each in taken}, dict[str, str]()
    for name, kind in types.items():
        definition = f"`{name.replace('`', '``')}` {kind}"
        if kind is not None and name.lower() not in names and _is_understood(definition, name):
            found[name] = definition
            names.add(name.lower())
    return found


def _is_understood(definition: str, name: str) -> bool:
    try:
        return bool(parse(definition).names == [name])
    except ValueError:
        return False


_Record = tuple[pa.RecordBatch, int]
"""Where a record stands in its chunk."""
_NULL_OR_NOT = (
    "null, which Debezium writes also for a large value of this type that stayed the same. Run in the source:"
    " ALTER TABLE ... REPLICA IDENTITY FULL; then change the row once more"
)
_OLD_KEY = "__debezium.oldkey"
_NEW_KEY = "__debezium.newkey"


def _has_header(name: str, record: _Record) -> bool:
    records, number = record
    return any(each["name"] == name for each in records.column("_headers")[number].as_py() or ())


def _may_hide_a_value(change: Change, name: str, record: _Record) -> bool:
    """Return whether a null may stand for a value that was not changed: neither a new row has one, nor a whole one."""
    field = change.fields.get(name)
    if field is None or not field.has_no_placeholder or change.has_before:
        return False
    if change.kind == "insert":  # of a row that got another key
        return _has_header(_OLD_KEY, record)
    return change.kind == "update"


def _converted(value: Any, name: str, convert: Converter | None, change: Change) -> Any:
    """Return a value as its column takes it; raise `SchemaMismatch` if it is none of its type."""
    if isinstance(value, list) and is_of_arrays(value):
        raise SchemaMismatch(f"{name}: an array of arrays, of whose values Debezium writes none")
    if convert is None:
        return value
    try:
        return convert(value, change.fields.get(name))
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise SchemaMismatch(f"{name}: {error}") from None


def _require_no_other_case(name: str, given: Mapping[str, Any]) -> None:
    """Raise for a column that the source writes with other capital letters: it would be null in every row."""
    for other in given:
        if other.lower() == name.lower():
            raise SchemaMismatch(f"{name}: in the source it is called {other}: write it so in `schema`")


def _operation(change: Change) -> str | None:
    return {"delete": DELETE, "truncate": TRUNCATE}.get(change.kind)


class _Reading:
    """Turns changes into values of the table's columns."""

    def __init__(self, table: pa.Schema, taken: list[str] | None, *, is_state: bool) -> None:
        self._debezium = Debezium()
        self._is_state = is_state
        self._taken = taken
        self._known: Mapping[str, Any] = {}
        self._types = {field.name: field.type for field in table}
        self._retyped = list[str]()
        """The columns whose values are of a type that cannot be told from the table's."""
        self._converters = [(name, converter(table.field(name).type)) for name in table.names]
        self._required = [field.name for field in table if not field.nullable]
        self._require_fitting = requirement(pa.schema([field.with_nullable(True) for field in table]))  # noqa: FBT003
        self.change = self._debezium.read
        self.waits_at: int | None = None
        """The offset of a change that takes a row out, if the next one puts it in with another key."""
        self._lsn: int | None = None
        """Where that change stands in the database's log."""

    def row(self, change: Change, record: "_Record") -> tuple[tuple[Any, ...], list[str]]:
        """Return the values in the order of the columns, and the columns whose values the change does not hold."""
        if change.fields is not self._known:
            self._look_at_schema(change)
        self._require_no_other_type(change)
        may_lack = change.kind != "snapshot"  # which reads whole rows
        found, unknown = list[Any](), list[str]()
        for name, convert in self._converters:
            value = change.values.get(name)
            if value is None:
                if self._is_unknown(change, name, record):
                    unknown.append(name)
            elif may_lack and is_unavailable(value):
                unknown.append(name)
                value = None
            elif convert is not None or isinstance(value, list):
                value = _converted(value, name, convert, change)
            found.append(value)
        row = tuple(found)
        self._require_fitting(row)
        if change.kind not in {"delete", "truncate"}:
            for name in self._required:
                if change.values.get(name) is None:
                    raise SchemaMismatch(f"{name}: null, and it is required")
        return row, unknown

    def _is_unknown(self, change: Change, name: str, record: "_Record") -> bool:
        """Return whether a null stands for a value that the change leaves out; raise if the table cannot be told."""
        if name not in change.values:
            _require_no_other_case(name, change.values)
            return False
        may_hide = _may_hide_a_value(change, name, record)
        if may_hide and self._is_state:
            raise SchemaMismatch(f"{name}: {_NULL_OR_NOT}")
        return may_hide

    def moved_from(self, change: Change, record: "_Record") -> int | None:
        """Return the offset of the change before this one, if it takes out the row that this one gives another key.

        The two are one change of the database, at one place in its log. In a topic of several partitions each may be in
        another one, and which of its neighbours is the other is not known.
        """
        before, self.waits_at = self.waits_at, None
        if not self._is_state or change.lsn is None:
            return None
        if change.kind == "delete" and _has_header(_NEW_KEY, record):
            records, number = record
            self.waits_at, self._lsn = records.column("_offset")[number].as_py(), change.lsn
        is_other_half = change.kind == "insert" and before is not None and change.lsn == self._lsn
        return before if is_other_half and _has_header(_OLD_KEY, record) else None

    def _look_at_schema(self, change: Change) -> None:
        """Look at the columns that a record's schema has; once for each schema."""
        if self._taken is not None:
            self._require_no_new_column(change)
        known = ((name, kind, change.fields.get(name)) for name, kind in self._types.items())
        self._retyped = [name for name, kind, field in known if field is not None and passes_for_another(kind, field)]
        self._known = change.fields

    def _require_no_other_type(self, change: Change) -> None:
        for name in self._retyped:
            value = change.values.get(name)
            if value is not None and not is_unavailable(value):
                kind = change.fields[name].type or "bytes"
                raise SchemaMismatch(f"{name}: {kind} in the source, and {self._types[name]} in the table")

    def _require_no_new_column(self, change: Change) -> None:
        """Raise `SchemaChanged` for columns that a table can have and this one has not."""
        types = {name: field.type for name, field in change.fields.items()}
        if added := new_columns(self._taken or [], types):
            raise SchemaChanged.by_records({name: str(types[name]) for name in added})
