"""How a table is partitioned: `country` by the value, `days(at)` by what a time is rounded down to, in UTC."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import BaseModel, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from penstock.errors import Conflict

_TRANSFORMED = re.compile(r"\s*(?P<transform>\w+)\s*\(\s*(?P<column>[^()]+?)\s*\)\s*")
_SUFFIXES = {"months": "_month", "days": "_day", "hours": "_hour"}


class PartitionField(BaseModel, frozen=True):
    """One column that a table is partitioned by, or the months, days or hours of one."""

    column: str = Field(description="Column of the pipeline.")
    transform: Literal["identity", "months", "days", "hours"] = Field(
        "identity", description="The value itself, or what a time is rounded down to."
    )

    @property
    def name(self) -> str:
        """The name of the partition: the column's own, or `at_day` for the days of `at`."""
        return self.column + _SUFFIXES.get(self.transform, "")

    def __str__(self) -> str:
        """Return it as it is written in a pipeline file."""
        return self.column if self.transform == "identity" else f"{self.transform}({self.column})"


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = _TRANSFORMED.fullmatch(value)
    if found is None:
        if not value.strip() or "(" in value or ")" in value:
            raise ValueError(f"'{value}' is neither a column nor months, days or hours of one, such as days(at)")
        return PartitionField(column=value.strip())
    if found["transform"] not in _SUFFIXES:
        raise ValueError(f"a table is partitioned by a column, or by months, days or hours of one, not by '{value}'")
    return PartitionField.model_validate(found.groupdict())


PartitionBy = Annotated[
    PartitionField,
    BeforeValidator(_parsed),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": r"\S", "examples": ["country", "days(at)"]}),
]
"""A partition as it is written in a pipeline file."""


def require_possible(fields: Sequence[PartitionField], schema: pa.Schema) -> None:
    """Raise `Conflict` if rows of this schema cannot be partitioned so."""
    for field in fields:
        _require_possible(field, schema)
    if len({field.name for field in fields}) < len(fields):
        raise _conflict("`partition_by` names the same partition twice", "Leave one of them out")


def _require_possible(field: PartitionField, schema: pa.Schema) -> None:
    if field.column not in schema.names or field.column.startswith("_"):
        there = ", ".join(name for name in schema.names if not name.startswith("_"))
        raise _conflict(
            f"`partition_by` names the column '{field.column}', which the pipeline does not write",
            f"Its columns are {there}",
        )
    kind = schema.field(field.column).type
    if field.transform == "identity":
        if not (
            pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)
        ):
            is_time = pa.types.is_timestamp(kind)
            raise _conflict(
                f"a table cannot be partitioned by the column '{field.column}' of type {kind}",
                f"Say days({field.column}), hours or months of it"
                if is_time
                else "Text, whole numbers, booleans and dates can be",
            )
        return
    if not (pa.types.is_timestamp(kind) or (pa.types.is_date(kind) and field.transform != "hours")):
        raise _conflict(f"`{field}` needs a time, and '{field.column}' is of type {kind}", "Name a column of times")
    if field.name in schema.names:
        raise _conflict(
            f"`{field}` makes the column '{field.name}', which the pipeline writes itself",
            f"Partition by {field.name}, or give that column another name in a step",
        )


def _conflict(what: str, fix: str) -> Conflict:
    return Conflict(what, safe="Nothing was written", fix=fix)
