"""Which columns a query uses for what, taken from Spark's own analysed plan.

Spark gives every column an id where it is made, and every expression says which ids it refers to. So the way back from
a result to the columns of a table is a walk over the plan, from its leaves to its root. Nodes that the walk does not
know, such as a stateful processor, end it: nothing is claimed about columns after them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Uses = dict[str, frozenset[str]]
"""Columns of the table, each with what it is used for, in OpenLineage's words."""

IDENTITY, TRANSFORMATION, AGGREGATION = "IDENTITY", "TRANSFORMATION", "AGGREGATION"
_SHAPED_BY = {  # how a node shapes rows without giving a value, and with which of its expressions
    "Filter": ("FILTER", ("expressions",)),
    "Aggregate": ("GROUP_BY", ("groupingExpressions",)),
    "Join": ("JOIN", ("expressions",)),
    "Sort": ("SORT", ("expressions",)),
    "Window": ("WINDOW", ("partitionSpec", "orderSpec")),
}
_MAKES = {"Project": "projectList", "Aggregate": "aggregateExpressions", "Window": "windowExpressions"}
_PASSES = {*_SHAPED_BY, *_MAKES, "SubqueryAlias", "View", "EventTimeWatermark", "GlobalLimit", "LocalLimit", "Distinct"}


class ColumnLineage(msgspec.Struct, frozen=True):
    """What the columns of a result were made of."""

    direct: dict[str, Uses]
    """For each column of the result, those whose values are in it."""
    indirect: Uses
    """Columns that decided which rows there are, and in what order."""

    def after(self, former: "ColumnLineage") -> "ColumnLineage":
        """Return the combined lineage; this one's table is the former one's result."""
        direct = {name: _through(uses, former.direct) for name, uses in self.direct.items()}
        return ColumnLineage(direct, united(former.indirect, _through(self.indirect, former.direct, is_direct=False)))


@dataclass(frozen=True)
class MadeColumns:
    """The columns that a pipeline writes."""

    types: dict[str, str]
    """What each one holds, as Spark calls it."""
    lineage: ColumnLineage


def passed_on(columns: list[str]) -> ColumnLineage:
    """Return the lineage of columns that are as they were."""
    return ColumnLineage({name: {name: frozenset({IDENTITY})} for name in columns}, {})


def united(*all_uses: Mapping[str, frozenset[str]]) -> Uses:
    """Add up what columns are used for."""
    found: Uses = {}
    for uses in all_uses:
        for name, kinds in uses.items():
            found[name] = found.get(name, frozenset()) | kinds
    return found


def _through(uses: Uses, made: Mapping[str, Uses], *, is_direct: bool = True) -> Uses:
    """Go one step further back: replace a column by those that it was made of."""
    found: Uses = {}
    for name, kinds in uses.items():
        for origin, before in made.get(name, {}).items():
            found = united(found, {origin: _strongest(before, kinds) if is_direct else kinds})
    return found


def _strongest(before: frozenset[str], after: frozenset[str]) -> frozenset[str]:
    """Combine two uses in a row: a column that is passed on keeps its use, an aggregate stays one."""
    both = before | after
    return frozenset({next(kind for kind in (AGGREGATION, TRANSFORMATION, IDENTITY) if kind in both)})


def read(frame: "DataFrame") -> ColumnLineage:
    """Read the lineage of a frame over tables; Spark has analysed it when it was made, and runs nothing for it."""
    plan: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - there is no public way to the plan
    made, indirect = _walk(plan)
    output = [(each.name(), each.exprId().id()) for each in _each(plan.output())]
    return ColumnLineage({name: made.get(number, {}) for name, number in output}, indirect)


def _walk(node: Any) -> tuple[dict[int, Uses], Uses]:
    """Return what each column below was made of, by its id, and what shaped the rows."""
    name, children = node.getClass().getSimpleName(), list(_each(node.children()))
    if not children:
        names = [(each.exprId().id(), each.name()) for each in _each(node.output())]
        return {number: {column: frozenset({IDENTITY})} for number, column in names}, {}
    if name not in _PASSES:
        return {}, {}
    made: dict[int, Uses] = {}
    indirect: Uses = {}
    for child in children:
        below, shaped = _walk(child)
        made.update(below)
        indirect = united(indirect, shaped)
    if name in _SHAPED_BY:
        use, fields = _SHAPED_BY[name]
        for field in fields:
            for expression in _each(getattr(node, field)()):
                indirect = united(indirect, {origin: frozenset({use}) for origin in _origins(expression, made)})
    if name in _MAKES:
        for expression in list(_each(getattr(node, _MAKES[name])())):
            if expression.getClass().getSimpleName() == "Alias":
                made[expression.exprId().id()] = _uses(expression.child(), made)
    return made, indirect


def _uses(expression: Any, made: Mapping[int, Uses]) -> Uses:
    """Return what an expression uses of the table."""
    name = expression.getClass().getSimpleName()
    if name == "AttributeReference":
        return made.get(expression.exprId().id(), {})
    kind = AGGREGATION if name == "AggregateExpression" else TRANSFORMATION
    found: Uses = {}
    for child in _each(expression.children()):
        below = _uses(child, made)
        found = united(found, {origin: _strongest(kinds, frozenset({kind})) for origin, kinds in below.items()})
    return found


def _origins(expression: Any, made: Mapping[int, Uses]) -> list[str]:
    numbers = [each.exprId().id() for each in _each(expression.references().toSeq())]
    return [origin for number in numbers for origin in made.get(number, {})]


def _each(sequence: Any) -> Iterator[Any]:
    """Go through one of Scala's sequences."""
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
