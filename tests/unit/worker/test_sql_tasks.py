"""SQL in a worker: failed rows pass by, and a row that an expression raises on is the only one to go."""

from typing import Any

import pyarrow as pa
import pytest

from penstock.record.columns import ERROR, RESERVED, whole_schema
from penstock.worker import sql_tasks
from penstock.worker.expressions import Expression
from penstock.worker.sql_tasks import JudgeTask, Part, SelectTask

BEFORE = whole_schema(pa.schema([("id", pa.int32()), ("tags", pa.list_(pa.string()))]))
ID = Expression("AttributeReference", "int", value="id")
SHARE = Part("10 % id", Expression("Remainder", "int", (Expression("Literal", "int", value=10), ID)))
FAILED = {"stage": "decode", "error": "Malformed", "message": "no JSON", "line": None}


def above(number: int) -> Part:
    operands = (ID, Expression("Literal", "int", value=number))
    return Part(f"id  >\n{number}", Expression("GreaterThan", "boolean", operands))


def rows(*ids: int | None) -> pa.RecordBatch:
    """Make rows with these ids; one without is a record that could not be decoded."""
    errors = pa.array([FAILED if each is None else None for each in ids], ERROR)
    columns = {"id": pa.array(ids, pa.int32()), "tags": pa.array([["x"]] * len(ids)), "_error": errors}
    arrays = [columns.get(each.name, pa.nulls(len(ids), each.type)) for each in BEFORE]
    return pa.RecordBatch.from_arrays(arrays, schema=BEFORE)


def run(task: SelectTask | JudgeTask, batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return [row for made in task(iter([batch]), 0) for row in made.to_pylist()]


def select(made: dict[str, Part], where: Part | None = None) -> SelectTask:
    after = pa.schema([*BEFORE][:2] + [(name, pa.int32()) for name in made] + [*RESERVED])
    return SelectTask(after, made, where)


def test_a_row_that_an_expression_raises_on_gets_an_error_that_names_it_and_failed_rows_pass_by() -> None:
    found = run(select({"share": SHARE}), rows(3, 0, None))

    assert [(3, 1), (0, None), (None, None)] == [(row["id"], row["share"]) for row in found]
    failed = {"stage": "sql", "error": "SqlFailed", "message": "fails on this record: 10 % id", "line": None}
    assert [None, failed, FAILED] == [row["_error"] for row in found]


def test_rows_that_where_leaves_out_are_gone_whatever_else_would_fail_on_them() -> None:
    found = run(select({"share": SHARE}, above(0)), rows(3, 0, None, -1))

    assert [(3, 1), (None, None)] == [(row["id"], row["share"]) for row in found]


def test_rules_are_asked_before_the_conditions_of_sinks_and_a_row_that_breaks_one_is_not_asked_further() -> None:
    names = {"_rule_0": above(1), "_to_0": SHARE}
    is_odd = Part("odd", Expression("EqualTo", "boolean", (SHARE.expression, Expression("Literal", "int", value=0))))
    schema = pa.schema([*BEFORE][:2] + [(name, pa.bool_()) for name in names] + [*RESERVED])
    strict = JudgeTask(schema, {"_rule_0": above(1)}, {"_to_0": is_odd}, ("_rule_0",))
    lenient = JudgeTask(schema, {"_rule_0": above(1)}, {"_to_0": is_odd}, ())

    found = run(strict, rows(5, 3, 0, None))
    assert [(True, True), (True, False), (False, None), (None, None)] == [
        (row["_rule_0"], row["_to_0"]) for row in found
    ]
    assert [None, None, None, "decode"] == [row["_error"] and row["_error"]["stage"] for row in found]
    broken = run(lenient, rows(0))[0]
    assert ("where", "fails on this record: odd") == (broken["_error"]["stage"], broken["_error"]["message"])


def test_a_chunk_that_is_large_is_evaluated_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_tasks, "_MOST_BYTES", 100)

    assert list(range(1, 20)) == [row["id"] for row in run(select({"share": SHARE}), rows(*range(1, 20)))]
