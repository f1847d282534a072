"""Where a pipeline's SQL runs: in the Python workers, where the rows are, or in Spark's JVM.

Workers run it if they can evaluate every expression of the pipeline with exactly Spark's result. If one of them needs
Spark, the rows go to the JVM anyway, and all of the SQL runs there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.driver.analysis import Analysis
from penstock.pipeline.spec import PipelineSpec
from penstock.record.columns import RESERVED, rule_column, user_columns, where_column
from penstock.steps.select import Select, with_columns_for_stars
from penstock.worker.expressions import Expression
from penstock.worker.sql_tasks import JudgeTask, Part, SelectTask

Translate = Callable[[pa.Schema, list[str]], list[Expression | str]]
"""Lets Spark translate expressions over some columns for workers, or say why only Spark evaluates them."""


@dataclass(frozen=True)
class PlacedExpression:
    """Where one expression runs."""

    key: str
    """Its key in the pipeline file."""
    text: str
    reason: str
    """Why it runs in Spark; empty if it runs in the workers."""


@dataclass(frozen=True)
class Placement:
    """The SQL of one pipeline."""

    expressions: list[PlacedExpression]
    selects: dict[int, SelectTask] = field(default_factory=dict)
    """What workers run, by the number of the step; nothing if Spark runs the SQL."""
    judge: JudgeTask | None = None
    """The same for expectations and the conditions of sinks."""


def place(spec: PipelineSpec, schemas: list[pa.Schema], analysis: Analysis, translate: Translate) -> Placement:
    """Decide where SQL runs, given the columns before each step and behind the last one."""
    forced = _forced(spec)

    def ask(schema: pa.Schema, texts: list[str]) -> list[Expression | str]:
        if forced or not texts:
            return [forced for _ in texts]
        return analysis.expressions(schema, texts, lambda: translate(schema, texts))

    found: list[tuple[str, str, Expression | str]] = []
    selects: dict[int, SelectTask] = {}
    for number, step in enumerate(spec.steps):
        if (select := step.as_select()) is not None:
            before, after = schemas[number : number + 2]
            made_texts = [text for _, text in _made(select, before)]
            texts = [*made_texts, *([select.where] if select.where else [])]
            answers = ask(before, [*made_texts, *([_filtering(select.where)] if select.where else [])])
            found += [(f"steps.{number}.sql", *each) for each in zip(texts, answers, strict=True)]
            parts = _parts(texts, answers)
            made = dict(zip((name for name, _ in _made(select, before)), parts, strict=False))
            selects[number] = SelectTask(after, made, _condition(parts[-1]) if select.where and parts else None)
    conditions = _conditions(spec)
    texts = [text for _, _, text in conditions]
    answers = ask(schemas[-1], [f"({text}) IS TRUE" for text in texts])
    found += [(key, text, each) for (key, _, text), each in zip(conditions, answers, strict=True)]
    if forced or any(isinstance(each, str) for _, _, each in found):
        return Placement([PlacedExpression(key, text, _reason(each)) for key, text, each in found])
    judged = {name: part for (_, name, _), part in zip(conditions, _parts(texts, answers), strict=True)}
    return Placement(
        [PlacedExpression(key, text, "") for key, text, _ in found],
        selects,
        _judge(spec, schemas[-1], judged) if judged else None,
    )


def _forced(spec: PipelineSpec) -> str:
    """Return why Spark has to run all SQL of a pipeline; empty if it does not have to."""
    if spec.sql_engine == "spark":
        return "`sql_engine: spark`"
    setting = next((name for name in spec.spark if name.startswith("spark.sql.")), None)
    return f"`{setting}` is set, and may change what SQL means" if setting else ""


def _reason(answer: Expression | str) -> str:
    return answer if isinstance(answer, str) else "other SQL of the pipeline does, and the rows are there anyway"


def _filtering(where: str) -> str:
    """Return an expression that is null where WHERE leaves a row out, and in which Spark optimizes as it does there.

    Where a condition only has to be true, null is as good as false, and what cannot be true is not evaluated.
    """
    return f"CASE WHEN ({where}) THEN 1 END"


def _condition(part: Part) -> Part:
    return replace(part, expression=Expression("IsNotNull", "boolean", (part.expression,)))


def _made(select: Select, schema: pa.Schema) -> list[tuple[str, str]]:
    own = user_columns(schema.names)
    return [(name, with_columns_for_stars(text, own)) for name, text in select.made if name not in RESERVED.names]


def _parts(texts: list[str], answers: list[Expression | str]) -> list[Part]:
    """Return the parts of a step; none if one of them is not for a worker."""
    parts = [Part(text, each) for text, each in zip(texts, answers, strict=True) if isinstance(each, Expression)]
    return parts if len(parts) == len(texts) else []


def _conditions(spec: PipelineSpec) -> list[tuple[str, str, str]]:
    """Return key, column and text of each expectation and each condition of a sink."""
    rules = [(f"expect.{number}.that", rule_column(number), rule.that) for number, rule in enumerate(spec.expect)]
    return rules + [
        (f"sinks.{number}.where", where_column(number), sink.where)
        for number, sink in enumerate(spec.sinks)
        if sink.where
    ]


def _judge(spec: PipelineSpec, schema: pa.Schema, parts: dict[str, Part]) -> JudgeTask:
    rules = {rule_column(number): rule for number, rule in enumerate(spec.expect)}
    users = [schema.field(name) for name in user_columns(schema.names)]
    return JudgeTask(
        pa.schema([*users, *((name, pa.bool_()) for name in parts), *RESERVED]),
        {name: part for name, part in parts.items() if name in rules},
        {name: part for name, part in parts.items() if name not in rules},
        tuple(name for name, rule in rules.items() if rule.is_strict),
    )
