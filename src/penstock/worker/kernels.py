"""Single operations on Arrow's columns, each with Spark's rules where Arrow's own differ.

NaN equals itself and is greater than all other numbers; integers raise where they overflow, and every division where
the divisor is zero, but only where no operand is null.
"""

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SECOND_US = 1_000_000
UNITS_US = {"second": SECOND_US, "minute": 60 * SECOND_US, "hour": 3600 * SECOND_US, "day": 86_400 * SECOND_US}
_WITHIN = {"second": 60, "minute": 60, "hour": 24}


def mask(values: pa.Array) -> Any:
    """Return where a condition is true, and not null."""
    return values.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003


def scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """Return a literal; numbers with a point are kept as text, for JSON has not all of them, times as numbers."""
    if value is not None and pa.types.is_decimal(kind):
        value = decimal.Decimal(value)
    if value is not None and pa.types.is_floating(kind):
        value = float.fromhex(value)
    if pa.types.is_date32(kind):
        return pa.scalar(value, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.scalar(value, pa.int64()).cast(kind)
    return pa.scalar(value, kind)


def cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values as another type that has room for all of them; whole numbers become the nearest double."""
    if pa.types.is_date32(kind) and pa.types.is_timestamp(values.type):
        return _with_nulls(np.floor_divide(_numbers(values), UNITS_US["day"]).astype(np.int32), values, kind)
    return values.cast(kind, safe=False)


def add(left: pa.Array, right: pa.Array) -> tuple[pa.Array, Any]:
    """Return sums, and where they overflow."""
    return _checked(pc.add_checked, pc.add, lambda a, b: a + b, left, right)


def subtract(left: pa.Array, right: pa.Array) -> tuple[pa.Array, Any]:
    """Return differences, and where they overflow."""
    return _checked(pc.subtract_checked, pc.subtract, lambda a, b: a - b, left, right)


def multiply(left: pa.Array, right: pa.Array) -> tuple[pa.Array, Any]:
    """Return products, and where they overflow."""
    return _checked(pc.multiply_checked, pc.multiply, lambda a, b: a * b, left, right)


def negate(values: pa.Array) -> tuple[pa.Array, Any]:
    """Return the opposites, and where there is none."""
    return _checked(pc.negate_checked, pc.negate, lambda a: -a, values)


def absolute(values: pa.Array) -> tuple[pa.Array, Any]:
    """Return values without their sign, and where that is not possible."""
    return _checked(pc.abs_checked, pc.abs, abs, values)


def _checked(
    checked: Callable[..., pa.Array],
    unchecked: Callable[..., pa.Array],
    exactly: Callable[..., int],
    *operands: pa.Array,
) -> tuple[pa.Array, Any]:
    kind = operands[0].type
    if pa.types.is_floating(kind):
        return unchecked(*operands), None
    try:
        return checked(*operands), None
    except pa.ArrowInvalid:  # it says that some row overflows, and not which
        end = 1 << (kind.bit_width - 1)
        rows = zip(*(each.to_pylist() for each in operands), strict=True)
        values = [None if None in row else exactly(*row) for row in rows]
        raised = np.array([each is not None and not -end <= each < end for each in values], bool)
        fitting = [None if bad else value for value, bad in zip(values, raised.tolist(), strict=True)]
        return pa.array(fitting, kind), raised


def divide(left: pa.Array, right: pa.Array) -> tuple[pa.Array, Any]:
    """Return quotients of doubles, and where the divisor is zero."""
    right, raised = _without_zeros(left, right)
    return pc.divide(left, right), raised


def integral_divide(left: pa.Array, right: pa.Array) -> tuple[pa.Array, Any]:
    """Return whole quotients, cut towards zero, and where the divisor is zero or the quotient overflows."""
    right, raised = _without_zeros(left, right)
    lowest = pa.scalar(-(1 << (left.type.bit_width - 1)), left.type)
    overflows = pc.and_(pc.equal(left, lowest), pc.equal(right, pa.scalar(-1, right.type)))
    if mask(overflows).any():
        right = pc.if_else(overflows.fill_null(False), pa.scalar(None, right.type), right)  # noqa: FBT003
        raised = mask(overflows) if raised is None else raised | mask(overflows)
    return pc.divide(left, right), raised


def remainder(left: pa.Array, right: pa.Array) -> tuple[pa.Array, Any]:
    """Return what a division leaves, with the sign of the dividend, and where the divisor is zero."""
    right, raised = _without_zeros(left, right)
    with np.errstate(invalid="ignore"):
        found = np.fmod(_numbers(left), _numbers(right, where_null=1))
    nulls = ~mask(pc.and_(pc.is_valid(left), pc.is_valid(right)))
    return pa.array(found, left.type, mask=nulls, from_pandas=False), raised


def _without_zeros(left: pa.Array, right: pa.Array) -> tuple[pa.Array, Any]:
    """Return divisors with null for zero, and where it is one, beside a dividend that is not null."""
    zero = pc.equal(right, pa.scalar(0, right.type))
    if not mask(zero).any():
        return right, None
    nulled = pc.if_else(zero.fill_null(False), pa.scalar(None, right.type), right)  # noqa: FBT003
    return nulled, mask(zero) & mask(pc.is_valid(left))


def equal(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return whether two values are the same; NaN is."""
    same = pc.equal(left, right)
    return pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right))) if pa.types.is_floating(left.type) else same


def equal_null_safe(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return whether two values are the same, or both null; never null."""
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(equal(left, right).fill_null(False), both_null)  # noqa: FBT003


def greater(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return whether the left one is greater; NaN is greater than any other number."""
    found = pc.greater(left, right)
    if not pa.types.is_floating(left.type):
        return found
    return pc.or_(found, pc.and_(pc.is_nan(left), pc.invert(pc.is_nan(right))))


def greater_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    """Return whether the left one is greater or the same; NaN is, beside any number."""
    found = pc.greater_equal(left, right)
    return pc.or_(found, pc.is_nan(left)) if pa.types.is_floating(left.type) else found


def is_in(values: pa.Array, listed: list[Any]) -> pa.Array:
    """Return whether a value is listed; null where it is null, or not listed beside a null."""
    known = pa.array([scalar(each, values.type) for each in listed if each is not None], values.type)
    found = pc.is_in(values, value_set=known)
    unknown = pc.is_null(values)
    if None in listed:
        unknown = pc.or_(unknown, pc.invert(found))
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def year(dates: pa.Array) -> pa.Array:
    """Return the year of dates."""
    return _with_nulls(_in_calendar(dates, "Y") + 1970, dates, pa.int32())


def quarter(dates: pa.Array) -> pa.Array:
    """Return the quarter of dates, from 1."""
    return _with_nulls(_in_calendar(dates, "M") % 12 // 3 + 1, dates, pa.int32())


def month(dates: pa.Array) -> pa.Array:
    """Return the month of dates, from 1."""
    return _with_nulls(_in_calendar(dates, "M") % 12 + 1, dates, pa.int32())


def day(dates: pa.Array) -> pa.Array:
    """Return the day of the month, from 1."""
    days = _numbers(dates).astype("datetime64[D]")
    return _with_nulls((days - days.astype("datetime64[M]")).astype(np.int64) + 1, dates, pa.int32())


def day_of_week(dates: pa.Array) -> pa.Array:
    """Return the day of the week, from 1 for Sunday; 1970 began on a Thursday."""
    return _with_nulls((_numbers(dates).astype(np.int64) + 4) % 7 + 1, dates, pa.int32())


def truncated(times: pa.Array, unit: str) -> tuple[pa.Array, Any]:
    """Return times in UTC, rounded down to a unit, and where that is before the first time that there is."""
    numbers = _numbers(times)
    units = {"microsecond": 1, "millisecond": 1000, **UNITS_US}
    if unit in units:
        wholes, length = np.floor_divide(numbers, units[unit]), units[unit]
    else:
        wholes, length = _first_days(np.floor_divide(numbers, UNITS_US["day"]), unit), UNITS_US["day"]
    too_early = wholes < -(2**63 // length)
    raised = too_early & mask(pc.is_valid(times)) if too_early.any() else None
    return _with_nulls(np.where(too_early, 0, wholes) * length, times, times.type), raised


def first_day(dates: pa.Array, unit: str) -> tuple[pa.Array, Any]:
    """Return the first day of the week, a Monday, month, quarter or year of dates, and where Spark raises.

    Before the first date that there is, Spark goes on with the last ones, for it counts in 32 bits; but for quarters.
    """
    days = _first_days(_numbers(dates), unit)
    too_early = (days < -(2**31)) & mask(pc.is_valid(dates)) if unit == "quarter" else None
    return _with_nulls(days.astype(np.int32), dates, pa.date32()), too_early


def _first_days(days: Any, unit: str) -> Any:
    if unit == "week":
        before = days - 7
        return before + 1 + (3 - before) % 7  # 1970 began on a Thursday
    months = days.astype(np.int64).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    whole = months - months % {"month": 1, "quarter": 3, "year": 12}[unit]
    return whole.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def of_day(times: pa.Array, unit: str) -> pa.Array:
    """Return the hour, minute or second of times in UTC."""
    return _with_nulls(np.floor_divide(_numbers(times), UNITS_US[unit]) % _WITHIN[unit], times, pa.int32())


def _in_calendar(dates: pa.Array, unit: str) -> Any:
    return _numbers(dates).astype("datetime64[D]").astype(f"datetime64[{unit}]").astype(np.int64)


def _numbers(values: pa.Array, where_null: int = 0) -> Any:
    """Return the numbers behind values, dates and times."""
    kind = values.type
    if pa.types.is_date32(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    return values.fill_null(where_null).to_numpy(zero_copy_only=False)


def _with_nulls(numbers: Any, like: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return numbers as a column, null where the values are that they were made of."""
    plain = {pa.date32(): pa.int32()}.get(kind, pa.int64() if pa.types.is_timestamp(kind) else kind)
    nulls = ~mask(pc.is_valid(like)) if like.null_count else None
    return pa.array(numbers.astype(plain.to_pandas_dtype()), plain, mask=nulls, from_pandas=False).cast(kind)
