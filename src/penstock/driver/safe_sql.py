"""SQL that cannot fail a batch: an expression that raises gives null for its row instead.

Spark evaluates with ANSI rules, where a division by zero or a bad cast raises and fails the whole job. Its own `try_`
functions wrap their operation in the expression `TryEval`, which SQL cannot reach; this reaches it. It evaluates a
struct, which is never null itself, so that null means a failure and not a result that is null.
"""

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as in every PySpark program

from penstock.record.columns import RESERVED, user_columns
from penstock.steps.select import Select, with_columns_for_stars

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_TRIED = "_tried"


def _attempt(spark: "SparkSession", expression: str) -> "Column":
    """Return a column that is null where evaluating the expression raises."""
    from pyspark.sql.classic.column import Column

    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public way to this expression
    bridge = jvm.org.apache.spark.sql.classic.ExpressionUtils
    inner: Any = F.expr(expression)
    tried = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(bridge.expression(inner._jc))  # noqa: SLF001
    made: Column = Column(bridge.column(tried))
    return made


def _evaluated_once(condition: "Column") -> "Column":
    """Keep Spark from repeating the expression in a filter, where it may evaluate it differently than in a column.

    A row that failed for the filter, and that WHERE drops for the column, would become a row of nulls. Spark repeats
    nothing that depends on the partition.
    """
    return condition & (F.spark_partition_id() >= 0)


def select(spark: "SparkSession", frame: "DataFrame", query: Select) -> "DataFrame":
    """Apply a row-local SELECT: good rows get its columns, rows on which it fails an error, failed rows stay."""
    frame = frame.alias("events")
    own = user_columns(frame.columns)
    made = [(name, with_columns_for_stars(text, own)) for name, text in query.made if name not in RESERVED.names]
    columns: list[Column] = []
    for name, text in zip(query.names, query.expressions, strict=True):
        if name is None:
            # Spark is asked what a star stands for only if it is more than a star: each answer takes it an analysis.
            found = own if text == "*" else user_columns(frame.selectExpr(text).columns)
            columns += [F.col(f"`{each}`") for each in found]
        elif name not in RESERVED.names:
            columns.append(F.col(f"{_TRIED}.row.`{name}`").alias(name))
    row = ", ".join(f"{_text(name)}, {text}" for name, text in made) or "'_', 1"
    body = f"named_struct({row})"
    if query.where:
        body = f"CASE WHEN ({query.where}) THEN {body} END"
    good = F.col("_error").isNull()
    attempt = F.when(_evaluated_once(good), _attempt(spark, f"named_struct('row', {body})"))
    frame = frame.withColumn(_TRIED, attempt)
    broken = good & F.col(_TRIED).isNull()
    if query.where:
        frame = frame.filter(~good | broken | F.col(f"{_TRIED}.row").isNotNull())
    parts = [*(text for _, text in made), *([query.where] if query.where else [])]
    error = F.when(broken, _error(spark, "sql", parts)).otherwise(F.col("_error")).alias("_error")
    others = [F.col(name) for name in frame.columns if name.startswith("_") and name not in {"_error", _TRIED}]
    return frame.select(*columns, *others, error)


def judge(
    spark: "SparkSession", frame: "DataFrame", stage: str, conditions: dict[str, str], only_if: list[str]
) -> "DataFrame":
    """Add a column per condition: true, false, or null where a row has failed; if it fails, the row gets an error."""
    if not conditions:
        return frame
    asked = F.col("_error").isNull()
    for name in only_if:
        asked &= F.col(name)
    body = ", ".join(f"{_text(name)}, ({text}) IS TRUE" for name, text in conditions.items())
    frame = frame.withColumn(_TRIED, F.when(asked, _attempt(spark, f"named_struct({body})")))
    error = F.when(asked & F.col(_TRIED).isNull(), _error(spark, stage, list(conditions.values())))
    others = [F.col(f"`{name}`") for name in frame.columns if name not in {_TRIED, "_error"}]
    answers = [F.col(f"{_TRIED}.`{name}`").alias(name) for name in conditions]
    return frame.select(*others, error.otherwise(F.col("_error")).alias("_error"), *answers)


def _error(spark: "SparkSession", stage: str, parts: list[str]) -> "Column":
    """Return the expressions that fail on a row; evaluated only for rows that fail."""
    reasons = [
        F.when(_attempt(spark, f"named_struct('it', {part})").isNull(), F.lit(" ".join(part.split()))) for part in parts
    ]
    message = F.concat(F.lit("fails on this record: "), F.concat_ws("; ", *reasons))
    return F.struct(
        F.lit(stage).alias("stage"),
        F.lit("SqlFailed").alias("error"),
        message.alias("message"),
        F.lit(None).cast("string").alias("line"),
    )


def _text(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
