"""SQL expressions that a Python worker evaluates by itself, with the result that Spark would have given.

An expression here is one of Spark's, after its optimizer; `driver/catalyst.py` translates, and what it does not know
stays in Spark. Spark evaluates row by row and stops at the first error; Arrow evaluates whole columns. So each result
has, beside its values, the rows on which Spark would have raised: an operand counts only where Spark would have come to
it, which is what the masks here are about.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.worker import kernels

TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""The types that are computed with, by Spark's names; columns of others are passed on, and no more."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def arrow_type(name: str) -> pa.DataType | None:
    """Return the type of this name of Spark's, which may be a decimal; None if it is not computed with."""
    if (decimal := _DECIMAL.fullmatch(name)) is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return TYPES.get(name)


class Expression(msgspec.Struct, frozen=True):
    """One of Spark's expressions."""

    kind: str
    """The name of its class in Spark."""
    type: str
    """The type of its values, as Spark writes it."""
    operands: tuple["Expression", ...] = ()
    value: Any = None
    """What it has beside its operands: the value of a literal, a pattern, the name of a column."""


class Result(NamedTuple):
    """What an expression gives for each row of a chunk."""

    values: pa.Array
    raised: Any = None
    """The rows on which Spark raises, as a mask; None if there are none. Their values mean nothing."""


def evaluate(expression: Expression, rows: pa.RecordBatch) -> Result:
    """Return what Spark would give for these rows."""
    kind = expression.kind
    if kind in _LAZY:
        return _LAZY[kind](expression, rows)
    results = [evaluate(each, rows) for each in expression.operands]
    operands = [each.values for each in results]
    if kind in _CHECKED:
        values, raised = _CHECKED[kind](*operands)
    elif kind in _TRUNCATED:
        values, raised = _TRUNCATED[kind](operands[0], expression.value)
    else:
        values, raised = _STRICT[kind](expression, operands), None
    # Spark looks at a divisor first.
    in_order = results[::-1] if kind in _DIVISIONS else results
    if kind in _ALL_OPERANDS:
        return Result(values, _either(raised, *(each.raised for each in results)))
    return Result(values, _either(_until_null(in_order), raised))


def _until_null(results: list[Result]) -> Any:
    """Return where one of the operands raises, and none before it is null: what follows a null is not looked at."""
    raised, asked = None, None
    for each in results:
        raised = _either(raised, _both(asked, each.raised))
        asked = _both(asked, _valid(each.values))
    return raised


def _either(*masks: Any) -> Any:
    found = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else found | mask
    return found


def _both(asked: Any, raised: Any) -> Any:
    """Return what two masks share; None is every row among those asked, and no row among those that raised."""
    return raised if asked is None or raised is None else asked & raised


def _valid(values: pa.Array) -> Any:
    return kernels.mask(pc.is_valid(values)) if values.null_count else None


def _column(expression: Expression, rows: pa.RecordBatch) -> Result:
    return Result(rows.column(expression.value))


def _literal(expression: Expression, rows: pa.RecordBatch) -> Result:
    return Result(pa.repeat(kernels.scalar(expression.value, arrow_type(expression.type)), rows.num_rows))


def _connected(kernel: Callable[[pa.Array, pa.Array], pa.Array], decided_by: bool) -> Any:  # noqa: FBT001
    """AND and OR: a left side that decides leaves the right one unasked."""

    def evaluate_both(expression: Expression, rows: pa.RecordBatch) -> Result:
        left, right = (evaluate(each, rows) for each in expression.operands)
        raised = right.raised
        if raised is not None:
            raised = raised & ~kernels.mask(left.values if decided_by else pc.invert(left.values))
        return Result(kernel(left.values, right.values), _either(left.raised, raised))

    return evaluate_both


def _case(expression: Expression, rows: pa.RecordBatch) -> Result:
    """CASE and IF: pairs of a condition and a value, and at the end what holds otherwise."""
    *pairs, otherwise = expression.operands
    open_rows, raised = np.ones(rows.num_rows, bool), None
    conditions, values = [], []
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        asked, given = evaluate(condition, rows), evaluate(value, rows)
        taken = open_rows & kernels.mask(asked.values)
        raised = _either(raised, _both(open_rows, asked.raised), _both(taken, given.raised))
        open_rows = open_rows & ~taken
        conditions.append(asked.values)
        values.append(given.values)
    last = evaluate(otherwise, rows)
    raised = _either(raised, _both(open_rows, last.raised))
    named = pc.make_struct(*conditions, field_names=[str(number) for number in range(len(conditions))])
    return Result(pc.case_when(named, *values, last.values), raised)


def _coalesce(expression: Expression, rows: pa.RecordBatch) -> Result:
    results = [evaluate(each, rows) for each in expression.operands]
    open_rows, raised = np.ones(rows.num_rows, bool), None
    for each in results:
        raised = _either(raised, _both(open_rows, each.raised))
        open_rows = open_rows & kernels.mask(pc.is_null(each.values))
    return Result(pc.coalesce(*(each.values for each in results)), raised)


_LAZY: dict[str, Callable[[Expression, pa.RecordBatch], Result]] = {
    "AttributeReference": _column,
    "Literal": _literal,
    "And": _connected(pc.and_kleene, decided_by=False),
    "Or": _connected(pc.or_kleene, decided_by=True),
    "CaseWhen": _case,
    "If": _case,
    "Coalesce": _coalesce,
}
_DIVISIONS = {"Divide", "IntegralDivide", "Remainder"}
_ALL_OPERANDS = {"EqualNullSafe"}
"""Expressions that look at every operand, whatever the others are."""

_CHECKED: dict[str, Callable[..., tuple[pa.Array, Any]]] = {
    "Add": kernels.add,
    "Subtract": kernels.subtract,
    "Multiply": kernels.multiply,
    "Divide": kernels.divide,
    "IntegralDivide": kernels.integral_divide,
    "Remainder": kernels.remainder,
    "UnaryMinus": kernels.negate,
    "Abs": kernels.absolute,
}
"""Expressions that raise by themselves, on some values."""

_TRUNCATED: dict[str, Callable[[pa.Array, str], tuple[pa.Array, Any]]] = {
    "TruncTimestamp": kernels.truncated,
    "TruncDate": kernels.first_day,
}
"""Expressions that round down to a unit, which there may be no room for."""

_STRICT: dict[str, Callable[[Expression, list[pa.Array]], pa.Array]] = {
    "EqualTo": lambda _, each: kernels.equal(*each),
    "EqualNullSafe": lambda _, each: kernels.equal_null_safe(*each),
    "GreaterThan": lambda _, each: kernels.greater(*each),
    "GreaterThanOrEqual": lambda _, each: kernels.greater_equal(*each),
    "LessThan": lambda _, each: kernels.greater(*each[::-1]),
    "LessThanOrEqual": lambda _, each: kernels.greater_equal(*each[::-1]),
    "Not": lambda _, each: pc.invert(each[0]),
    "IsNull": lambda _, each: pc.is_null(each[0]),
    "IsNotNull": lambda _, each: pc.is_valid(each[0]),
    "IsNaN": lambda _, each: pc.is_nan(each[0]).fill_null(False),  # noqa: FBT003
    "In": lambda it, each: kernels.is_in(each[0], it.value),
    "GetStructField": lambda it, each: pc.struct_field(each[0], it.value),
    "Cast": lambda it, each: kernels.cast(each[0], arrow_type(it.type)),
    "Length": lambda _, each: pc.utf8_length(each[0]),
    "StringTrim": lambda _, each: pc.utf8_trim(each[0], " "),
    "StringTrimLeft": lambda _, each: pc.utf8_ltrim(each[0], " "),
    "StringTrimRight": lambda _, each: pc.utf8_rtrim(each[0], " "),
    "Concat": lambda _, each: pc.binary_join_element_wise(*each, "", null_handling="emit_null"),
    "Substring": lambda it, each: pc.utf8_slice_codeunits(each[0], *it.value),
    "StartsWith": lambda it, each: pc.starts_with(each[0], it.value),
    "EndsWith": lambda it, each: pc.ends_with(each[0], it.value),
    "Contains": lambda it, each: pc.match_substring(each[0], it.value),
    "Like": lambda it, each: pc.match_like(each[0], it.value),
    "Year": lambda _, each: kernels.year(each[0]),
    "Quarter": lambda _, each: kernels.quarter(each[0]),
    "Month": lambda _, each: kernels.month(each[0]),
    "DayOfMonth": lambda _, each: kernels.day(each[0]),
    "DayOfWeek": lambda _, each: kernels.day_of_week(each[0]),
    "Hour": lambda _, each: kernels.of_day(each[0], "hour"),
    "Minute": lambda _, each: kernels.of_day(each[0], "minute"),
    "Second": lambda _, each: kernels.of_day(each[0], "second"),
}
KINDS = frozenset({*_LAZY, *_CHECKED, *_TRUNCATED, *_STRICT})
"""The classes of expressions that are known here."""


def may_raise(expression: Expression) -> bool:
    """Return whether there is anything in an expression that raises on some values."""
    return expression.kind in {*_CHECKED, *_TRUNCATED} or any(map(may_raise, expression.operands))
