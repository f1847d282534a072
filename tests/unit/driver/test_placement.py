"""Where SQL runs: in the workers if they can evaluate all of it, in Spark otherwise; each with the reason."""

from typing import Any

import pyarrow as pa
import pytest

from penstock import PipelineSpec
from penstock.driver.analysis import Analysis
from penstock.driver.placement import Placement, place
from penstock.record.columns import RESERVED, whole_schema
from penstock.worker.expressions import Expression

BEFORE = whole_schema(pa.schema([("id", pa.int64()), ("name", pa.string())]))
AFTER = pa.schema([*[*BEFORE][:2], ("upper", pa.string()), *RESERVED])
KNOWN = Expression("AttributeReference", "bigint", value="id")


def placed(translate: Any, **more: Any) -> Placement:
    spec = PipelineSpec.model_validate(
        {
            "name": "placed",
            "source": {"topics": ["t"]},
            "decode": {"type": "json", "schema": "id bigint, name string"},
            "steps": [{"sql": "SELECT *, upper(name) AS upper FROM events WHERE id > 1"}],
            "expect": [{"name": "id", "that": "id < 9", "otherwise": "drop"}],
            "sinks": [{"type": "console", "where": "id = 5"}],
            **more,
        }
    )
    return place(spec, [BEFORE, AFTER], Analysis(None, spec.spark), translate)


def all_known(_schema: pa.Schema, texts: list[str]) -> list[Expression | str]:
    return [KNOWN for _ in texts]


def never(_schema: pa.Schema, _texts: list[str]) -> list[Expression | str]:
    raise AssertionError("Spark was asked")


def test_workers_run_sql_if_they_can_evaluate_every_expression() -> None:
    found = placed(all_known)

    assert {""} == {each.reason for each in found.expressions}
    assert ["steps.0.sql", "steps.0.sql", "expect.0.that", "sinks.0.where"] == [each.key for each in found.expressions]
    select, judge = found.selects[0], found.judge
    assert (["upper"], "id > 1") == (list(select.made), select.where and select.where.text)
    assert judge is not None
    assert (["_rule_0"], ["_to_0"], ("_rule_0",)) == (list(judge.rules), list(judge.wheres), judge.strict)
    assert ["id", "name", "upper", "_rule_0", "_to_0"] == judge.schema.names[:5]


def test_one_expression_that_only_spark_evaluates_takes_the_others_along() -> None:
    def translate(_schema: pa.Schema, texts: list[str]) -> list[Expression | str]:
        return ["`upper` is not known" if "upper" in text else KNOWN for text in texts]

    found = placed(translate)

    assert ({}, None) == (found.selects, found.judge)
    assert "`upper` is not known" == found.expressions[0].reason
    assert ["other SQL of the pipeline does, and the rows are there anyway"] * 3 == [
        each.reason for each in found.expressions[1:]
    ]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"sql_engine": "spark"}, "`sql_engine: spark`"),
        (
            {"spark": {"spark.sql.ansi.enabled": "false"}},
            "`spark.sql.ansi.enabled` is set, and may change what SQL means",
        ),
    ],
)
def test_the_file_can_leave_all_sql_to_spark(more: dict[str, Any], reason: str) -> None:
    found = placed(never, **more)

    assert ({}, None) == (found.selects, found.judge)
    assert [reason] * 4 == [each.reason for each in found.expressions]
