"""Expressions without Spark: what counts as an error of a row, and what is never looked at."""

import math
from typing import Any

import pyarrow as pa

from penstock.worker.expressions import Expression, evaluate


def column(name: str, kind: str = "int") -> Expression:
    return Expression("AttributeReference", kind, value=name)


def literal(value: Any, kind: str = "int") -> Expression:
    return Expression("Literal", kind, value=value)


def of(kind: str, result: str, *operands: Expression, value: Any = None) -> Expression:
    return Expression(kind, result, operands, value)


def shown(expression: Expression, **columns: pa.Array) -> list[Any]:
    """Return each row's value, with "error" where Spark would have raised."""
    values, raised = evaluate(expression, pa.RecordBatch.from_pydict(columns))
    found = values.to_pylist()
    return found if raised is None else ["error" if bad else each for each, bad in zip(found, raised, strict=True)]


def test_only_the_rows_that_overflow_are_errors() -> None:
    numbers = pa.array([1, 2**31 - 1, None, -(2**31)], pa.int32())

    assert [2, "error", None, -(2**31) + 1] == shown(of("Add", "int", column("a"), literal(1)), a=numbers)
    assert [-1, -(2**31) + 1, None, "error"] == shown(of("UnaryMinus", "int", column("a")), a=numbers)


def test_a_division_by_zero_is_an_error_unless_an_operand_is_null() -> None:
    left = pa.array([1.0, 1.0, None, 1.0, 0.0])
    right = pa.array([2.0, 0.0, 0.0, None, -0.0])

    divided = of("Divide", "double", column("a", "double"), column("b", "double"))

    assert [0.5, "error", None, None, "error"] == shown(divided, a=left, b=right)


def test_whole_quotients_are_cut_towards_zero_and_remainders_have_the_sign_of_the_dividend() -> None:
    left = pa.array([7, -7, 7, -(2**63), 5])
    right = pa.array([2, 2, -2, -1, 0])
    operands = column("a", "bigint"), column("b", "bigint")

    assert [3, -3, -3, "error", "error"] == shown(of("IntegralDivide", "bigint", *operands), a=left, b=right)
    assert [1, -1, 1, 0, "error"] == shown(of("Remainder", "bigint", *operands), a=left, b=right)


def test_what_a_condition_keeps_from_being_evaluated_is_no_error() -> None:
    numbers = pa.array([0, 2, None], pa.int32())
    inverse = of("Remainder", "int", literal(10), column("a"))
    is_zero = of("EqualTo", "boolean", column("a"), literal(0))
    is_large = of("GreaterThan", "boolean", inverse, literal(5))

    assert [None, 0, None] == shown(of("If", "int", is_zero, literal(None), inverse), a=numbers)
    assert ["error", 0, None] == shown(of("CaseWhen", "int", is_zero, inverse, inverse), a=numbers)
    assert [True, False, None] == shown(of("Or", "boolean", is_zero, is_large), a=numbers)
    assert ["error", False, None] == shown(of("And", "boolean", is_zero, is_large), a=numbers)
    assert ["error", False, None] == shown(of("Or", "boolean", is_large, is_zero), a=numbers)


def test_what_follows_a_null_is_not_looked_at_and_of_a_division_the_divisor_comes_first() -> None:
    numbers = pa.array([0], pa.int32())
    failing = of("Remainder", "int", literal(1), column("a"))
    null = literal(None)

    assert [None] == shown(of("Add", "int", null, failing), a=numbers)
    assert ["error"] == shown(of("Add", "int", failing, null), a=numbers)
    assert [None] == shown(of("Remainder", "int", failing, null), a=numbers)
    assert ["error"] == shown(of("Remainder", "int", null, failing), a=numbers)
    assert ["error"] == shown(of("EqualNullSafe", "boolean", null, failing), a=numbers)


def test_an_error_stays_one_behind_what_gives_an_answer_for_nulls() -> None:
    failing = of("Remainder", "int", literal(1), column("a"))

    assert ["error", False] == shown(of("IsNull", "boolean", failing), a=pa.array([0, 1], pa.int32()))
    assert ["error", 0] == shown(of("Coalesce", "int", failing, literal(7)), a=pa.array([0, 1], pa.int32()))


def test_nan_equals_itself_and_is_greater_than_all_other_numbers() -> None:
    left = pa.array([math.nan, math.nan, math.inf, -0.0])
    right = pa.array([math.nan, math.inf, math.nan, 0.0])
    operands = column("a", "double"), column("b", "double")

    assert [True, False, False, True] == shown(of("EqualTo", "boolean", *operands), a=left, b=right)
    assert [False, True, False, False] == shown(of("GreaterThan", "boolean", *operands), a=left, b=right)
    assert [True, False, True, True] == shown(of("LessThanOrEqual", "boolean", *operands), a=left, b=right)


def test_a_value_that_is_not_listed_beside_a_null_is_neither_in_nor_out() -> None:
    words = pa.array(["a", "b", None])

    assert [True, None, None] == shown(of("In", "boolean", column("a", "string"), value=["a", None]), a=words)
    assert [True, False, None] == shown(of("In", "boolean", column("a", "string"), value=["a"]), a=words)


def test_parts_of_times_before_1970_and_of_leap_days_are_those_of_the_calendar() -> None:
    times = pa.array([-1, 951_782_400_000_000, -62_135_596_800_000_000, None], pa.timestamp("us", tz="UTC"))
    date = of("Cast", "date", column("t", "timestamp"))

    assert [1969, 2000, 1, None] == shown(of("Year", "int", date), t=times)
    assert [(12, 31), (2, 29), (1, 1), (None, None)] == list(
        zip(shown(of("Month", "int", date), t=times), shown(of("DayOfMonth", "int", date), t=times), strict=True)
    )
    assert [23, 0, 0, None] == shown(of("Hour", "int", column("t", "timestamp")), t=times)
    assert [4, 3, 2, None] == shown(of("DayOfWeek", "int", date), t=times)
