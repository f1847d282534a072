"""Whatever workers evaluate by themselves, Spark gives the same: every value, every null and every error."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.conversion import SparkConversionMixin
from pyspark.sql.pandas.types import from_arrow_schema

from penstock import PipelineSpec
from penstock.driver import catalyst, safe_sql
from penstock.driver.analysis import Analysis
from penstock.driver.placement import place
from penstock.record.columns import whole_schema
from penstock.steps.select import Select
from penstock.worker.expressions import KINDS, Expression, Result, evaluate
from penstock.worker.kernels import mask

from support.random_sql import each_form, expression, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AT_ONCE = 30


@dataclass
class Compared:
    """Both engines, over the same rows."""

    spark: "SparkSession"
    cells: int = 0
    kinds: set[str] = field(default_factory=set)

    def compare(self, texts: list[str], batch: pa.RecordBatch) -> None:
        """Fail on the first expression and row that they do not agree on."""
        schema = from_arrow_schema(batch.schema)
        frame = self.spark.createDataFrame(pa.Table.from_batches([batch]), schema)
        answers = zip(texts, catalyst.translated(self.spark, schema, texts), strict=True)
        known = [(text, made) for text, made in answers if isinstance(made, Expression)]
        tried = [
            safe_sql._attempt(self.spark, f"named_struct('it', {text})").alias(f"tried_{number}")
            for number, (text, _) in enumerate(known)
        ]
        shown = [
            (f"tried_{each} IS NULL AS raised_{each}", f"tried_{each}.it AS it_{each}") for each in range(len(known))
        ]
        expected = (
            frame.select(*tried).selectExpr(*(each for pair in shown for each in pair)).toArrow().combine_chunks()
        )
        for number, (text, made) in enumerate(known):
            spark = Result(expected.column(f"it_{number}").chunk(0), mask(expected.column(f"raised_{number}").chunk(0)))
            self._compare(text, made, batch, spark)

    def _compare(self, text: str, made: Expression, batch: pa.RecordBatch, spark: Result) -> None:
        result = evaluate(made, batch)
        raised = np.zeros(batch.num_rows, bool) if result.raised is None else result.raised
        assert spark.values.type == result.values.type, text
        differing = (spark.raised != raised) | (~raised & ~_same(spark.values, result.values))
        for row in np.flatnonzero(differing)[:1].tolist():
            both = ((spark.raised, spark.values), (raised, result.values))
            said = ["an error" if each[row] else str(values.slice(row, 1)) for each, values in both]
            used = {name: str(batch.column(name).slice(row, 1)) for name in batch.schema.names if name in text}
            pytest.fail(f"{text}\nSpark: {said[0]}\nworker: {said[1]}\nrow: {used}")
        self.cells += batch.num_rows
        self.kinds.update(_kinds(made))


def _same(left: pa.Array, right: pa.Array) -> Any:
    """Return where two columns have the same value, to the bit, but for the many forms of NaN."""
    if pa.types.is_floating(left.type):
        bits = pa.int64() if left.type == pa.float64() else pa.int32()
        plain = [
            pc.if_else(pc.is_nan(each), pa.scalar(float("nan"), each.type), each).view(bits) for each in (left, right)
        ]
        left, right = plain
    same_value = mask(pc.equal(left, right))
    return same_value | mask(pc.and_(pc.is_null(left), pc.is_null(right)))


def _kinds(expression: Expression) -> Iterator[str]:
    yield expression.kind
    for each in expression.operands:
        yield from _kinds(each)


@pytest.fixture
def compared(spark: "SparkSession") -> Iterator[Compared]:
    threshold = "spark.sql.execution.arrow.localRelationThreshold"
    spark.conf.set(threshold, "0")  # or the optimizer would evaluate by itself, and not the code that Spark generates
    yield Compared(spark)
    spark.conf.unset(threshold)


def _run(compared: Compared, examples: int, count: int, number: int | None) -> None:
    def agree(dice: random.Random) -> None:
        compared.compare([expression(dice) for _ in range(_AT_ONCE)], rows(dice, count))

    budget = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=number is None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    tried: Any = budget(given(st.randoms(use_true_random=True))(agree))
    (tried if number is None else seed(number)(tried))()


def test_spark_and_workers_agree_on_every_form(compared: Compared) -> None:
    dice = random.Random(1)
    texts = each_form(dice)

    for first in range(0, len(texts), 60):
        compared.compare(texts[first : first + 60], rows(dice, 200))

    assert set() == KINDS - compared.kinds


def test_spark_and_workers_agree_on_forms_inside_of_each_other(compared: Compared) -> None:
    _run(compared, examples=2, count=300, number=None)


@pytest.mark.parametrize(
    "text",
    [
        "current_timestamp()",
        "now()",
        "at > current_timestamp()",
        "coalesce(at, now())",
        "year(current_date())",
        "localtimestamp()",
        "unix_timestamp() > 0",
        "current_user() = 'ada'",
        "current_timezone()",
        "at < timestamp'now'",
        "at >= CAST(' TODAY' AS timestamp)",
        "date'tomorrow'",
    ],
)
def test_what_another_query_would_give_otherwise_is_left_to_spark(spark: "SparkSession", text: str) -> None:
    from pyspark.sql.types import StructType, TimestampType

    made = catalyst.translated(spark, StructType().add("at", TimestampType()), [text, "year(at)"])

    assert "depends on when or by whom it is evaluated" in str(made[0])
    assert isinstance(made[1], Expression)


def test_times_that_are_rounded_and_decimals_that_are_compared_stay_in_the_workers(spark: "SparkSession") -> None:
    from pyspark.sql.types import DateType, DecimalType, IntegerType, StructType, TimestampType

    schema = StructType().add("amount", DecimalType(10, 2)).add("tax", DecimalType(8, 4)).add("n", IntegerType())
    schema = schema.add("at", TimestampType()).add("day", DateType())
    kept = [
        *("amount > 100", "amount >= n", "amount <=> tax", "amount BETWEEN 0 AND 9.99", "amount IN (1.5, 2)"),
        *("coalesce(amount, 0)", "CASE WHEN amount < tax THEN tax ELSE amount END", "tax IS NULL"),
        *("date_trunc('hour', at)", "trunc(day, 'MM')", "date_trunc('WEEK', at) = at"),
    ]
    left = ["amount * 2", "CAST(amount AS decimal(6,2))", "date_trunc('century', at)", "date_trunc('day', day)"]

    made = catalyst.translated(spark, schema, [*kept, *left])

    assert kept == [text for text, each in zip([*kept, *left], made, strict=True) if isinstance(each, Expression)]


def test_a_concatenation_that_can_fail_behind_a_null_is_left_to_spark(spark: "SparkSession") -> None:
    from pyspark.sql.types import IntegerType, StringType, StructType

    schema = StructType().add("s", StringType()).add("n", IntegerType())

    made = catalyst.translated(spark, schema, ["concat(s, 10 % n)", "s || (n + 1) || s", "concat(10 % n, s, n)"])

    assert [True, True, False] == ["can fail behind" in str(each) for each in made]


@pytest.mark.parametrize(
    "where", ["10 % n NOT IN (7, NULL)", "10 % n > 1 AND NULL", "10 % n < 3", "n > 0 OR 10 % n = 0"]
)
def test_where_lets_the_same_rows_through_in_workers_and_in_spark(compared: Compared, where: str) -> None:
    spark, text = compared.spark, f"SELECT n, n % 2 AS odd FROM events WHERE {where}"  # noqa: S608 - our own conditions
    before = whole_schema(pa.schema([("n", pa.int32())]))
    numbers = pa.array([0, 1, 4, None, 7, 20], pa.int32())
    rows = pa.RecordBatch.from_arrays(
        [numbers if each.name == "n" else pa.nulls(len(numbers), each.type) for each in before], schema=before
    )
    frame = SparkConversionMixin.createDataFrame(spark, pa.Table.from_batches([rows]), from_arrow_schema(before))
    spec = PipelineSpec.model_validate(
        {
            "name": "filtered",
            "source": {"topics": ["t"]},
            "decode": {"type": "json", "schema": "n int"},
            "steps": [{"sql": text}],
            "sinks": [{"type": "console"}],
        }
    )

    expected = safe_sql.select(spark, frame, Select(text)).toArrow()
    assert [] == [row for row in expected.to_pylist() if row["n"] is None and row["_error"] is None]
    placed = place(
        spec,
        [before, expected.schema],
        Analysis(None, {}),
        lambda schema, texts: catalyst.translated(spark, from_arrow_schema(schema), texts),
    )
    found = pa.Table.from_batches(placed.selects[0](iter([rows]), 0))

    assert expected.select(["n", "odd", "_error"]).to_pylist() == found.select(["n", "odd", "_error"]).to_pylist()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_spark_and_workers_agree_on_a_million_cells(compared: Compared, request: pytest.FixtureRequest) -> None:
    number = request.config.getoption("--soak-seed")
    while compared.cells < 1_000_000:
        _run(compared, examples=4, count=4000, number=number)
        number += 1000
