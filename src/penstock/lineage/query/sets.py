"""Conditions over sets of ids of any size, and sums of flags and counts, in the words of both databases."""

import datetime
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import BigInteger, ColumnElement, Connection, Integer, Select, bindparam, func, or_, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from penstock.lineage.keys import time_of
from penstock.lineage.shapes.parameters import LARGEST_NUMBER

_FLAGS = [1 << bit for bit in range(12)]


def among(connection: Connection, column: ColumnElement[Any], ids: Iterable[Any]) -> ColumnElement[bool]:
    """Return that a column has one of these values: one parameter however many there are, and an index serves it."""
    values = list(ids)
    if connection.dialect.name == "postgresql":
        array = bindparam(None, values, type_=ARRAY(column.type), unique=True)
        return column == func.any(array)
    listed = orjson.dumps([each.hex if isinstance(each, UUID) else each for each in values]).decode()
    return column.in_(select(func.json_each(listed).table_valued("value").c.value))


def by_uuid(
    connection: Connection, id_column: ColumnElement[Any], created_at: ColumnElement[Any], ids: Iterable[UUID]
) -> ColumnElement[bool]:
    """Return that a row of the history has one of these ids; partitions that cannot have it are left alone.

    `created_at` is the time inside a UUIDv7; of other ids nothing is known, and all partitions are asked.
    """
    timed, others = {}, set()
    for each in ids:
        time = time_of(each)
        if time is None:
            others.add(each)
        else:
            timed[each] = time
    found: list[ColumnElement[bool]] = []
    if timed:
        between = created_at.between(min(timed.values()), max(timed.values()) + datetime.timedelta(milliseconds=1))
        found.append(among(connection, id_column, timed) & between)
    if others:
        found.append(among(connection, id_column, others))
    return or_(*found) if found else among(connection, id_column, ())


class all_flags(FunctionElement[int]):  # noqa: N801 - stands in statements like a function of the database
    """All flags that are set in any row of a group."""

    type = Integer()
    inherit_cache = True


@compiles(all_flags, "postgresql")
def _bit_or(element: Any, compiler: Any, **options: Any) -> str:
    return f"bit_or({compiler.process(element.clauses, **options)})"


@compiles(all_flags)
def _sum_of_flags(element: Any, compiler: Any, **options: Any) -> str:
    """SQLite has no `bit_or`: a flag is set in some row if the greatest of its bits is."""
    column = compiler.process(element.clauses, **options)
    return "(" + " + ".join(f"max({column} & {flag})" for flag in _FLAGS) + ")"


class total(FunctionElement[int]):  # noqa: N801 - stands in statements like a function of the database
    """The sum of a group's counts, or the greatest number that a client can read: one mad count fails no answer."""

    type = BigInteger()
    inherit_cache = True


@compiles(total, "postgresql")
def _sum_up_to(element: Any, compiler: Any, **options: Any) -> str:
    found = f"sum({compiler.process(element.clauses, **options)})"  # a decimal
    return f"CASE WHEN {found} > {LARGEST_NUMBER} THEN {LARGEST_NUMBER} ELSE {found}::bigint END"


@compiles(total)
def _total(element: Any, compiler: Any, **options: Any) -> str:
    """SQLite's `sum` fails beyond 64 bits. Its `total` does not, is a float above 2**53, and 0 of nothing."""
    column = compiler.process(element.clauses, **options)
    return f"CASE WHEN count({column}) > 0 THEN CAST(total({column}) AS INTEGER) END"


def at_most(statement: Select[Any], limit: int) -> Select[Any]:
    """Return the statement with a limit that shows whether there is more."""
    return statement.limit(limit + 1)
