"""The statements that merge staged rows into the store's tables, by the rules of `lineage/facts.py`.

Both databases understand the same text but for a few words. Each statement gives the same result whichever of two rows
came first.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from sqlalchemy import Table

Dialect = Literal["postgresql", "sqlite"]
Rule = Callable[[str, str, Dialect], str]
"""Says what a column becomes: of the table's name, the column's, and the database's."""

# ruff: noqa: S608 - built of the names of our own tables


def greatest(table: str, column: str, dialect: Dialect) -> str:
    """Keep the greater value; known beats unknown."""
    old, new = f'"{table}"."{column}"', f'excluded."{column}"'
    return f"GREATEST({old}, {new})" if dialect == "postgresql" else f"coalesce(max({old}, {new}), {old}, {new})"


def least(table: str, column: str, dialect: Dialect) -> str:
    """Keep the lesser value; known beats unknown."""
    old, new = f'"{table}"."{column}"', f'excluded."{column}"'
    return f"LEAST({old}, {new})" if dialect == "postgresql" else f"coalesce(min({old}, {new}), {old}, {new})"


def added_up(table: str, column: str, _dialect: Dialect) -> str:
    """Keep the flags of both."""
    return f'"{table}"."{column}" | excluded."{column}"'


def greater_job(table: str, column: str, _dialect: Dialect) -> str:
    """Keep the job whose name is the greater."""
    old, new = f'"{table}"."{column}"', f'excluded."{column}"'
    return f"CASE WHEN {old} = {new} THEN {old} ELSE ({job_of(old, new)}) END"


def job_of(old: str, new: str) -> str:
    """Return a query for the one of two jobs whose name, or else location, is the greater."""
    return (
        "SELECT j.id FROM job AS j JOIN location AS l ON l.id = j.location_id"
        f" WHERE j.id IN ({old}, {new}) ORDER BY j.name_key DESC, l.type DESC, l.name DESC LIMIT 1"
    )


def staged(table: Table) -> str:
    """Name the temporary table that rows wait in."""
    return f"staged_{table.name}"


def make_staged(table: Table, dialect: Dialect) -> str:
    """Make the temporary table, with the same columns and without keys."""
    made = f"CREATE TEMPORARY TABLE IF NOT EXISTS {staged(table)}"
    if dialect == "postgresql":
        return f'{made} ON COMMIT DELETE ROWS AS SELECT * FROM "{table.name}" WITH NO DATA'
    return f'{made} AS SELECT * FROM "{table.name}" WHERE 0'


def merge(
    table: Table,
    columns: Sequence[str],
    key: Sequence[str],
    rules: Mapping[str, Rule],
    dialect: Dialect,
    *,
    unless: str = "",
) -> str:
    """Move staged rows into the table, in the order of its key; columns without a rule stay as they are.

    A row that is there already changes by the rules, if the condition `unless` allows.
    """
    listed = quoted(columns)
    change = "NOTHING"
    if rules:
        assignments = ", ".join(f'"{each}" = {rule(table.name, each, dialect)}' for each, rule in rules.items())
        change = f"UPDATE SET {assignments}"
        if unless:
            change += f" WHERE {unless}"
    return (
        f'INSERT INTO "{table.name}" ({listed}) SELECT {listed} FROM {staged(table)} WHERE true'
        f" ORDER BY {quoted(key)} ON CONFLICT ({quoted(key)}) DO {change}"
    )


def ids(table: Table, key: Sequence[str]) -> str:
    """Return the keys of the staged rows, each with the id that the table has for it."""
    keys = ", ".join(f's."{each}"' for each in key)
    on = " AND ".join(f't."{each}" = s."{each}"' for each in key)
    return f'SELECT {keys}, t.id FROM {staged(table)} AS s JOIN "{table.name}" AS t ON {on}'


def newer(_table: str, column: str, _dialect: Dialect) -> str:
    """Take what came, which the statement's condition has found to be newer."""
    return f'excluded."{column}"'


def quoted(names: Sequence[str]) -> str:
    """List names of columns."""
    return ", ".join(f'"{each}"' for each in names)
