"""Rows of this process that come back from Spark without a job are those that a job gives."""

import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.driver import safe_sql
from penstock.driver.spark_job import collected
from penstock.record.columns import RESERVED
from penstock.steps.select import Select

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [
    {"id": 1, "name": "ada", "amount": 2.5, "at": datetime.datetime(2026, 1, 31, 23, 59, tzinfo=datetime.UTC)},
    {"id": 0, "name": None, "amount": -0.0, "at": None},
    {"id": 3, "name": "7", "amount": float("nan"), "at": datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)},
]
COLUMNS = [("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64()), ("at", pa.timestamp("us", "UTC"))]
SHOWN = "*, date_format(at, 'yyyy-MM-dd') AS day, named_struct('tags', split(name, 'd')) AS parts"


def select(spark: "SparkSession", text: str) -> tuple[pa.Table, pa.Table]:
    """Return what a SELECT makes of the rows, in both ways."""
    rows = pa.Table.from_pylist(ROWS, pa.schema([*COLUMNS, *RESERVED]))
    frame = safe_sql.select(spark, spark.createDataFrame(rows), Select(text))
    frame = safe_sql.judge(spark, frame, "expect", {"_rule_0": "id > 0"}, only_if=[])
    return collected(frame), frame.toArrow()


def test_rows_that_no_job_has_seen_are_those_that_a_job_gives(spark: "SparkSession") -> None:
    for made in (
        f"{SHOWN} FROM events",
        "id, 100 / id AS share, CAST(name AS int) AS n FROM events",
        "id, nullif(id, 1) AS n, id BETWEEN 1 AND 2 AS b, coalesce(name, 'x') AS c FROM events WHERE amount >= 0",
        "id, upper(reverse(name)) AS r, current_date() > date(at) AS past, map(name, id) AS m FROM events",
        "id FROM events WHERE id > 9",
        "id, CAST(amount AS decimal(10, 2)) AS d FROM events WHERE 10 % id = 1",
    ):
        found, expected = select(spark, f"SELECT {made}")

        assert expected.schema == found.schema, made
        assert str(expected.to_pylist()) == str(found.to_pylist()), made  # as text, for no NaN equals another
