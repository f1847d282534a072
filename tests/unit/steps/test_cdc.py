"""Changes of a table become rows with what each does; what would make the mirror another table is refused."""

import base64
import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import SchemaChanged
from penstock.pipeline.check import problems
from penstock.pipeline.spec import PipelineSpec
from penstock.record.columns import CHANGE
from penstock.steps.cdc import HISTORY, Cdc, new_columns
from penstock.steps.step import StepContext

from support.cdc_step import INT, SCHEMA, run, table
from support.debezium import UNAVAILABLE, change
from support.events import FAILED, batch


def operations(rows: list[dict[str, Any]]) -> list[Any]:
    return [row[CHANGE.name]["op"] for row in rows]


TEXT = {"type": "string", "field": "name"}


@pytest.mark.parametrize("schema", [None, [INT, TEXT]])
def test_each_kind_of_change_becomes_a_row_with_what_it_does(schema: list[dict[str, Any]] | None) -> None:
    rows = run(
        change("r", {"id": 1, "name": "ada"}, schema=schema),
        change("c", {"id": 2, "name": "bob"}, schema=schema),
        change("u", {"id": 2, "name": "rob"}, schema=schema),
        change("d", before={"id": 1, "name": None}, schema=schema),
        change("t", schema=schema),
    )

    assert [(1, "ada"), (2, "bob"), (2, "rob"), (1, None), (None, None)] == table(rows)
    assert [None, None, None, "delete", "truncate"] == operations(rows)


def test_tombstones_and_messages_are_dropped_and_failed_rows_pass_by() -> None:
    rows = run(None, change("m"), change("c", {"id": 1, "name": "a"}), b"failed before", failed=(3,))

    assert [(1, "a"), (None, None)] == table(rows)
    assert [None, FAILED] == [row["_error"] for row in rows]


def test_a_deleted_row_without_an_image_is_known_by_the_key_of_its_record() -> None:
    keys: list[bytes | None] = [b'{"id": 7}', json.dumps({"schema": {"type": "struct"}, "payload": {"id": 8}}).encode()]

    assert [(7, None), (8, None)] == table(run(change("d"), change("d"), keys=keys))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", UNAVAILABLE),
        ("binary", base64.b64encode(UNAVAILABLE.encode()).decode()),
        ("string", f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}'),
        ("array<string>", [UNAVAILABLE]),
        ("array<binary>", [base64.b64encode(UNAVAILABLE.encode()).decode()]),
        ("array<int>", list(UNAVAILABLE.encode())),
        ("map<string, string>", {UNAVAILABLE: UNAVAILABLE}),
        ("decimal(38,2)", UNAVAILABLE),
    ],
)
def test_a_value_that_stayed_the_same_is_told_by_name_and_is_no_text(kind: str, value: Any) -> None:
    (row,) = run(change("u", {"id": 1, "doc": value}), schema=f"id bigint NOT NULL, doc {kind} NOT NULL")

    assert {"op": None, "unchanged": ["doc"], "moved_from": None} == row[CHANGE.name]
    assert [(1, None)] == table([row])


def test_a_snapshot_reads_whole_rows_so_a_text_that_looks_like_a_placeholder_is_one() -> None:
    (row,) = run(change("r", {"id": 1, "name": UNAVAILABLE}))

    assert ([(1, UNAVAILABLE)], []) == (table([row]), row[CHANGE.name]["unchanged"])


def test_a_deleted_row_lacks_nothing() -> None:
    (row,) = run(change("d", before={"id": 1, "name": UNAVAILABLE}))

    assert {"op": "delete", "unchanged": [], "moved_from": None} == row[CHANGE.name]


OF_NUMERICS = {
    "type": "array",
    "items": {"type": "string"},
    "field": "v",
    "parameters": {"__debezium.source.column.type": "_NUMERIC"},
}
OLD_KEY = {"name": "__debezium.oldkey", "value": b'{"id":0}'}
BITS = {"type": "bytes", "name": "io.debezium.data.Bits", "field": "v"}
OF_TEXTS = {**OF_NUMERICS, "parameters": {"__debezium.source.column.type": "_TEXT"}}
OF_NUMBERS = {"type": "array", "items": {"type": "int16"}, "field": "v"}


@pytest.mark.parametrize(
    ("field", "op", "before", "headers", "is_refused"),
    [
        (OF_NUMERICS, "u", None, [], True),
        (OF_NUMBERS, "u", None, [], True),
        (BITS, "u", None, [], True),
        (OF_NUMERICS, "c", None, [OLD_KEY], True),
        (OF_NUMERICS, "c", None, [], False),
        (OF_NUMERICS, "r", None, [], False),
        (OF_NUMERICS, "u", {"id": 1, "v": None}, [], False),
        (OF_TEXTS, "u", None, [], False),
    ],
)
def test_a_null_that_may_stand_for_a_large_value_is_no_null(
    field: dict[str, Any], op: str, before: Any, headers: list[dict[str, Any]], *, is_refused: bool
) -> None:
    value = change(op, {"id": 1, "v": None}, before=before, schema=[INT, field])
    schema = f"id bigint NOT NULL, v {'binary' if field is BITS else 'array<string>'}"

    (row,) = run(value, schema=schema, headers=headers)
    (in_history,) = run(value, schema=schema, headers=headers, cdc="history")

    assert is_refused == (row["_error"] is not None)
    assert not is_refused or "REPLICA IDENTITY FULL" in row["_error"]["message"]
    assert (["v"] if is_refused else []) == in_history["change_unknown"]


def test_of_a_deleted_row_nothing_is_told_that_debezium_has_made_up() -> None:
    schema = "id bigint NOT NULL, n bigint, t string, d decimal(9,2), at timestamp"
    made_up = {"id": 7, "n": 0, "t": "", "d": "0.00", "at": "1970-01-01T00:00:00Z"}
    keys: list[bytes | None] = [b'{"id":7}']

    rows = [
        run(change("d", before=before), schema=schema, keys=keys)[0] for before in (made_up, {**made_up, "t": "real"})
    ]

    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert [(7, None, None, None, None), (7, 0, "real", Decimal("0.00"), epoch)] == table(rows)


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        (b"no json", "NoChange", "this is not a change as Debezium writes it"),
        (b'{"id": 1, "name": "flat"}', "NoChange", "its `op` is None"),
        (change("x", {"id": 1}), "NoChange", "its `op` is 'x'"),
        (change("u"), "NoChange", "without a row"),
        (change("c", {"id": "one", "name": "a"}), "SchemaMismatch", "id: "),
        (change("c", {"id": None, "name": "a"}), "SchemaMismatch", "id: null, and it is required"),
        (change("c", {"id": 1.5, "name": "a"}), "SchemaMismatch", "id: no whole number"),
        (change("c", {"id": 1, "name": 5}), "SchemaMismatch", "name: "),
        (change("c", {"id": 1, "Name": "a"}), "SchemaMismatch", "name: in the source it is called Name"),
        (b'{"schema": 5, "payload": {"op": "t"}}', "NoChange", "the record's schema is none of Connect's"),
        (b"[" * 100_000, "NoChange", "this is not a change"),
    ],
)
def test_what_is_no_change_or_does_not_fit_fails_its_record_alone(value: bytes, error: str, says: str) -> None:
    bad, good = run(value, change("c", {"id": 2, "name": "b"}))

    assert (error, True, None) == (bad["_error"]["error"], says in bad["_error"]["message"], good["_error"])


def test_the_history_has_a_row_for_each_change_with_its_kind_time_and_place() -> None:
    rows = run(
        change("r", {"id": 1, "name": "a"}, lsn=5),
        change("u", {"id": 1, "name": UNAVAILABLE}, lsn=6),
        change("d", before={"id": 1, "name": None}, lsn=9),
        cdc="history",
    )

    at = datetime.datetime(2023, 11, 14, 22, 13, 20, 123, tzinfo=datetime.UTC)
    assert [
        (1, "a", "snapshot", at, 5, []),
        (1, None, "update", at, 6, ["name"]),
        (1, None, "delete", at, 9, []),
    ] == table(rows)
    assert CHANGE.name not in rows[0]


NUMERIC = {
    "__debezium.source.column.type": "NUMERIC",
    "__debezium.source.column.length": "12",
    "__debezium.source.column.scale": "2",
}


def test_a_new_column_of_the_source_is_told_with_its_type_and_taken_when_the_step_has_it() -> None:
    more = {"type": "string", "field": "more", "parameters": NUMERIC}
    value = change("u", {"id": 1, "name": "a", "more": "1.50"}, schema=[INT, TEXT, more])
    spec = Cdc.model_validate({"cdc": "state", "schema": SCHEMA, "new_columns": "add"})
    context = StepContext(pa.schema([]), Path(), Path())
    given = batch("value binary", [(value,)], ())
    given = given.set_column(given.schema.get_field_index("_value"), "_value", pa.array([value], pa.binary()))

    with pytest.raises(SchemaChanged) as raised:
        list(spec.open(context)(iter([given]), 0))
    as_text = SchemaChanged(str(raised.value))
    (rows,) = spec.with_columns(as_text.columns).open(context)(iter([given]), 0)

    assert {"more": "decimal(12,2)"} == as_text.columns
    assert [{"id": 1, "name": "a", "more": Decimal("1.50")}] == rows.select(["id", "name", "more"]).to_pylist()
    assert [(1, "a")] == table(run(value))


def test_a_column_that_no_table_could_have_is_left_out() -> None:
    given = {"_hidden": "string", "ID": "bigint", "shape": None, "`odd` ``": "string", "fine": "int"}
    spec = Cdc.model_validate({"cdc": "history", "schema": SCHEMA, "new_columns": "add"})

    found = new_columns(spec.columns(None), {**given, "change_at": "timestamp"})

    assert {"`odd` ``", "fine"} == found.keys()
    assert {"id", "name", *found} == {*spec.with_columns({"`odd` ``": "string", "fine": "int"}).columns(None)} - {
        *HISTORY.names
    }


def complaints(**parts: Any) -> list[str]:
    document = {
        "name": "orders",
        "source": {"topics": ["orders"]},
        "decode": {"type": "raw"},
        "steps": [{"cdc": "state", "schema": SCHEMA}],
        "sinks": [{"type": "delta", "path": "t", "key": ["id"]}],
        **parts,
    }
    found = problems(PipelineSpec.model_validate(document), Path())
    return [f"{'.'.join(map(str, each.keys))}: {each.text}" for each in found]


def test_a_pipeline_that_mirrors_a_table_has_nothing_wrong_with_it() -> None:
    assert [] == complaints()


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"decode": {"type": "json", "schema": "op string"}}, "steps.0.cdc: changes are read from the record as it is"),
        ({"sinks": [{"type": "delta", "path": "t"}]}, "sinks.0: changes are applied by key"),
        ({"sinks": [{"type": "json", "path": "t"}]}, "sinks.0: changes are applied by key"),
        ({"expect": [{"name": "x", "that": "id > 0"}]}, "expect.0: with `cdc: state` no change can be left out"),
        (
            {"sinks": [{"type": "delta", "path": "t", "key": ["id"], "where": "id > 0"}]},
            "sinks.0.where: with `cdc: state` no change can be left out",
        ),
        (
            {"steps": [{"cdc": "state", "schema": SCHEMA}, {"sql": "SELECT * FROM events"}]},
            "steps.0.cdc: `cdc: state` is the last step",
        ),
        (
            {"sinks": [{"type": "delta", "path": "t", "key": ["id"], "coordinates": False}]},
            "sinks.0.coordinates: which row of a key is the newest, only `coordinates` tell",
        ),
    ],
)
def test_what_would_make_the_mirror_another_table_is_refused(parts: dict[str, Any], expected: str) -> None:
    assert any(each.startswith(expected) for each in complaints(**parts)), complaints(**parts)


def test_a_table_with_a_column_of_the_historys_name_is_refused() -> None:
    with pytest.raises(ValueError, match="the column 'change_at' of the table has the name of one that the history"):
        Cdc.model_validate({"cdc": "history", "schema": "id bigint, change_at timestamp"})
