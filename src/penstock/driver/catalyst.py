"""SQL expressions that a Python worker can evaluate with exactly Spark's result, from Spark's optimized plan.

Spark has resolved every type and made every implicit cast there, and its optimizer has changed what it changes: where
`i + 1 - 2` overflows depends on it. Only classes and types are translated that are known to give the same, value by
value, null by null and error by error (tests/integration/driver/test_worker_sql.py compares). Whatever else there is,
now or in another version of Spark, is refused with the reason, and runs in Spark. So are expressions that the optimizer
replaces by a value for this query alone, such as the current time: workers would use that one forever.
"""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as in every PySpark program

from penstock.worker.expressions import KINDS, TYPES, Expression, arrow_type, may_raise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_DEEPEST = 50
_MOST_OPERANDS = 500
_LONGEST_PATTERN = 1000
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_FLOATING = ("float", "double")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_DECIMAL = "decimal"
"""Stands for decimals, all of the same precision and scale."""
_TIMES = ("timestamp", "timestamp_ntz")
_ROOMIER = {
    (before, after)
    for number, before in enumerate(_INTEGERS)
    for after in (*_INTEGERS[number + 1 :], *_FLOATING, "string")
} | {("float", "double"), ("boolean", "string"), ("timestamp", "date"), ("timestamp_ntz", "date")}
_TAKES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("EqualTo", "EqualNullSafe", "In", "InSet", "Coalesce"), (*TYPES, _DECIMAL)),
    **dict.fromkeys(("GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual"), (*TYPES, _DECIMAL)),
    **dict.fromkeys(("And", "Or", "Not"), ("boolean",)),
    **dict.fromkeys(("Add", "Subtract", "Multiply", "Remainder", "UnaryMinus", "Abs"), (*_INTEGERS, *_FLOATING)),
    "Divide": ("double",),
    "IntegralDivide": ("bigint",),
    "IsNaN": _FLOATING,
    **dict.fromkeys(("Length", "StringTrim", "StringTrimLeft", "StringTrimRight", "Concat"), ("string",)),
    **dict.fromkeys(("StartsWith", "EndsWith", "Contains", "Like"), ("string",)),
    **dict.fromkeys(("Year", "Quarter", "Month", "DayOfMonth", "DayOfWeek"), ("date",)),
    **dict.fromkeys(("Hour", "Minute", "Second"), _TIMES),
}
"""The types for which an expression is translated; all operands have the same type."""
_ONE_OPERAND = {"StringTrim", "StringTrimLeft", "StringTrimRight"}
_ANSI = {"Add", "Subtract", "Multiply", "Remainder", "Divide", "IntegralDivide"}
_PATTERNS = {"StartsWith", "EndsWith", "Contains", "Like"}
_UNITS_OF_DATES = {
    "week": "week",
    **dict.fromkeys(("mon", "month", "mm"), "month"),
    "quarter": "quarter",
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
}
_UNITS = {
    **{name: name for name in ("microsecond", "millisecond", "second", "minute", "hour")},
    **dict.fromkeys(("day", "dd"), "day"),
    **_UNITS_OF_DATES,
}
"""The units of `date_trunc` and `trunc`, by the names that Spark accepts."""
_MOVING_TIME = re.compile(r"""['"]\s*(now|today|tomorrow|yesterday)\b""", re.IGNORECASE)
"""Text that Spark casts to the current time or day; in a typed literal the parser does that."""
_FOR_ONE_QUERY = "its result depends on when or by whom it is evaluated"


class OnlyInSpark(Exception):
    """An expression that a worker does not evaluate, with the reason."""


def translated(spark: "SparkSession", schema: "StructType", texts: list[str]) -> list[Expression | str]:
    """Return each expression over the table `events` as a worker evaluates it, or why only Spark does."""
    return _translated(_events(spark, schema), texts)


def _events(spark: "SparkSession", schema: "StructType") -> "DataFrame":
    """Return an empty table that the optimizer does not recognise as empty."""
    from pyspark.sql.classic.dataframe import DataFrame

    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public way that does without pandas
    kind = jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
    rows = spark.sparkContext._jsc.emptyRDD()  # noqa: SLF001
    made: DataFrame = DataFrame(spark._jsparkSession.createDataFrame(rows, kind), spark)  # noqa: SLF001
    return made.alias("events")


def _translated(frame: "DataFrame", texts: list[str]) -> list[Expression | str]:
    from pyspark.errors import PySparkException

    try:
        made: Any = frame.select(*(F.expr(text).alias(str(number)) for number, text in enumerate(texts)))
        execution = made._jdf.queryExecution()  # noqa: SLF001 - there is no public way to the plan
        plan = execution.optimizedPlan()
    except PySparkException:
        # The optimizer has come upon an error, such as a literal division by zero; the others are not worse for it.
        if len(texts) == 1:
            return ["it fails for every record"]
        return [each for text in texts for each in _translated(frame, [text])]
    if plan.getClass().getSimpleName() != "Project" or not plan.child().children().isEmpty():
        return ["Spark's plan for it is more than a projection"] * len(texts)
    columns = {each.exprId().id(): each.name() for each in _each(plan.child().output())}
    moving = _for_one_query(frame.sparkSession, execution.analyzed(), texts)
    return [
        _FOR_ONE_QUERY if moves else _answer(each, columns)
        for each, moves in zip(_each(plan.projectList()), moving, strict=True)
    ]


def _for_one_query(spark: "SparkSession", plan: Any, texts: list[str]) -> list[bool]:
    """Return which expressions change from query to query, which only the plan before the optimizer shows."""
    jvm: Any = spark._jvm  # noqa: SLF001 - as above
    current = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    return [
        bool(each.containsPattern(current)) or _MOVING_TIME.search(text) is not None
        for each, text in zip(_each(plan.projectList()), texts, strict=True)
    ]


def _answer(it: Any, columns: dict[int, str]) -> Expression | str:
    try:
        return _expression(it, columns, 0)
    except OnlyInSpark as answer:
        return str(answer)


def _expression(it: Any, columns: dict[int, str], depth: int) -> Expression:
    kind, result = it.getClass().getSimpleName(), it.dataType().simpleString()
    if depth > _DEEPEST:
        raise OnlyInSpark(f"it is more than {_DEEPEST} expressions deep")
    if kind == "AttributeReference":
        if it.exprId().id() not in columns:
            raise OnlyInSpark(f"Spark's optimizer has made '{it.name()}'")
        return Expression(kind, result, value=columns[it.exprId().id()])
    if kind == "Literal":
        return Expression(kind, _known(result), value=_value(it.value(), result))
    if it.children().size() > _MOST_OPERANDS or (kind == "InSet" and it.hset().size() > _MOST_OPERANDS):
        raise OnlyInSpark(f"more than {_MOST_OPERANDS} operands")
    operands = [_expression(each, columns, depth + 1) for each in _each(it.children())]
    if kind == "Alias":
        return operands[0]
    if kind == "InSet":  # what Spark makes of a long list
        listed = [_value(each, operands[0].type) for each in _each(it.hset())]
        kind, operands = "In", [*operands, *(Expression("Literal", operands[0].type, value=each) for each in listed)]
    _require_known(kind, it, operands)
    if kind not in _SPECIAL:
        return Expression(kind, result, tuple(operands))
    operands, value = _SPECIAL[kind](it, operands)
    return Expression(kind, result, tuple(operands), value)


def _require_known(kind: str, it: Any, operands: list[Expression]) -> None:
    if kind not in KINDS:
        raise OnlyInSpark(f"`{it.prettyName()}` is not evaluated by workers")
    if kind in _TAKES:
        types = list(dict.fromkeys(each.type for each in operands))
        if len(types) > 1 or _class_of(types[0]) not in _TAKES[kind]:
            raise OnlyInSpark(f"`{it.prettyName()}` of {' and '.join(types)}")
    if kind in _ANSI and it.evalMode().toString() != "ANSI":
        raise OnlyInSpark(f"`{it.prettyName()}` is not under ANSI rules")
    if kind in {"UnaryMinus", "Abs"} and not it.failOnError():
        raise OnlyInSpark(f"`{it.prettyName()}` is not under ANSI rules")
    if kind in _ONE_OPERAND and len(operands) > 1:
        raise OnlyInSpark(f"`{it.prettyName()}` of other characters than blanks")


def _class_of(kind: str) -> str:
    return kind.partition("(")[0]


def _known(kind: str) -> str:
    if arrow_type(kind) is None:
        raise OnlyInSpark(f"the type {kind} is not one that workers compute with")
    return kind


def _value(value: Any, kind: str) -> Any:
    """Return a literal's value as JSON can hold it."""
    if value is None or _class_of(kind) not in {*_FLOATING, "string", _DECIMAL}:
        return value
    return float(value).hex() if kind in _FLOATING else str(value.toString())


def _literals(operands: list[Expression], it: Any) -> list[Any]:
    if any(each.kind != "Literal" for each in operands):
        raise OnlyInSpark(f"`{it.prettyName()}` of something other than literals")
    return [each.value for each in operands]


def _cast(it: Any, operands: list[Expression]) -> tuple[list[Expression], None]:
    before, after = operands[0].type, it.dataType().simpleString()
    if (before, after) not in _ROOMIER and not _has_room(before, arrow_type(after)):
        raise OnlyInSpark(f"a cast from {before} to {after}")
    if before == "timestamp":
        _require_utc(it)
    return operands, None


def _has_room(before: str, after: pa.DataType | None) -> bool:
    """Return whether a decimal has room for all digits of a whole number or of another decimal."""
    if after is None or not pa.types.is_decimal(after):
        return False
    was: Any = arrow_type(before)
    is_decimal = _class_of(before) == _DECIMAL
    scale = was.scale if is_decimal else 0
    digits = was.precision - scale if is_decimal else _DIGITS.get(before)
    return digits is not None and scale <= after.scale and digits <= after.precision - after.scale


def _require_utc(it: Any) -> None:
    if it.timeZoneId().toString() != "Some(UTC)":
        raise OnlyInSpark("a time zone other than UTC")


def _in(it: Any, operands: list[Expression]) -> tuple[list[Expression], list[Any]]:
    if operands[0].type in _FLOATING:  # whether -0.0 is 0.0 depends on how long the list is
        raise OnlyInSpark(f"a list of {operands[0].type}")
    return operands[:1], _literals(operands[1:], it)


def _case(_: Any, operands: list[Expression]) -> tuple[list[Expression], None]:
    kind = operands[1].type
    if len(operands) % 2 == 0:  # without ELSE
        operands = [*operands, Expression("Literal", _known(kind))]
    values = [*operands[1::2], operands[-1]]
    if any(each.type != _known(kind) for each in values):
        raise OnlyInSpark("its values have several types")
    return operands, None


def _pattern(it: Any, operands: list[Expression]) -> tuple[list[Expression], str]:
    (pattern,) = _literals(operands[1:], it)
    if pattern is None:
        raise OnlyInSpark(f"`{it.prettyName()}` of null")
    if it.getClass().getSimpleName() == "Like" and ("\\" in pattern or it.escapeChar() in pattern):
        raise OnlyInSpark("a pattern with an escape")
    if len(pattern) > _LONGEST_PATTERN:
        raise OnlyInSpark(f"a pattern of more than {_LONGEST_PATTERN} characters")
    return operands[:1], pattern


def _substring(it: Any, operands: list[Expression]) -> tuple[list[Expression], list[int]]:
    if operands[0].type != "string":
        raise OnlyInSpark(f"`{it.prettyName()}` of {operands[0].type}")
    first, length = _literals(operands[1:], it)
    if first is None or length is None or first < 0:
        raise OnlyInSpark("a substring from the end, or of null")
    start = max(first - 1, 0)
    return operands[:1], [start, start + max(length, 0)]


def _concat(it: Any, operands: list[Expression]) -> tuple[list[Expression], None]:
    if any(map(may_raise, operands[1:])):  # code that Spark generates stops at the first null, its interpreter does not
        raise OnlyInSpark(f"`{it.prettyName()}` of something that can fail behind something else")
    return operands, None


def _truncated(it: Any, operands: list[Expression]) -> tuple[list[Expression], str]:
    """Spark takes the unit before a time, and after a date."""
    is_of_time = it.getClass().getSimpleName() == "TruncTimestamp"
    unit, values = operands if is_of_time else operands[::-1]
    (name,) = _literals([unit], it)
    known = (_UNITS if is_of_time else _UNITS_OF_DATES).get((name or "").lower())
    if known is None:
        raise OnlyInSpark(f"`{it.prettyName()}` to something other than {', '.join(sorted(set(_UNITS.values())))}")
    if is_of_time:
        _require_utc(it)
    if values.type != ("timestamp" if is_of_time else "date"):
        raise OnlyInSpark(f"`{it.prettyName()}` of {values.type}")
    return [values], known


def _in_utc(it: Any, operands: list[Expression]) -> tuple[list[Expression], None]:
    if operands[0].type == "timestamp":
        _require_utc(it)
    return operands, None


_SPECIAL: dict[str, Callable[[Any, list[Expression]], tuple[list[Expression], Any]]] = {
    "Cast": _cast,
    "In": _in,
    "CaseWhen": _case,
    "If": _case,
    **dict.fromkeys(_PATTERNS, _pattern),
    "Substring": _substring,
    **dict.fromkeys(("Hour", "Minute", "Second"), _in_utc),
    **dict.fromkeys(("TruncTimestamp", "TruncDate"), _truncated),
    "GetStructField": lambda it, operands: (operands, it.ordinal()),
    "Concat": _concat,
}


def _each(sequence: Any) -> Iterator[Any]:
    """Go through one of Scala's sequences."""
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
