"""SQL over landed Delta tables, by DataFusion, which delta-rs brings along: it starts at once."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from penstock.errors import BadInput, NotFound, one_line
from penstock.sinks.tables import open_table

_FOLDER = "tables"


def query(sql: str, base: Path, as_of: str = "") -> pa.Table:
    """Run one SELECT; it can only read. A table is named by its folder: "tables/orders", or orders if it is there."""
    try:
        statements = sqlglot.parse(sql, dialect="duckdb")
    except SqlglotError as error:
        raise BadInput(f"this is no SQL: {one_line(str(error).splitlines()[0])}") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise BadInput("one SELECT belongs here: tables are read, and nothing is changed")
    made = {each.alias_or_name for each in statements[0].find_all(exp.CTE)}
    named = {_name(each) for each in statements[0].find_all(exp.Table)} - made
    return _run(sql, {name: open_table(_folder(name, base), as_of) for name in sorted(named)})


def rows_of(path: Path, *, columns: list[str], where: str, limit: int, as_of: str = "") -> pa.Table:
    """Return some rows of one table."""
    chosen = ", ".join(f'"{each}"' for each in columns) or "*"
    condition = f" WHERE {where}" if where else ""
    return _run(f"SELECT {chosen} FROM t{condition} LIMIT {limit}", {"t": open_table(path, as_of)})  # noqa: S608 - it can only read


def _name(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)


def _folder(name: str, base: Path) -> Path:
    choices = [base / name, base / _FOLDER / name]
    found = next((each for each in choices if (each / "_delta_log").is_dir()), None)
    if found is None:
        there = sorted(str(each.parent.relative_to(base)) for each in base.glob("*/_delta_log"))
        there += sorted(str(each.parent.relative_to(base)) for each in base.glob("*/*/_delta_log"))
        fix = f"There are {', '.join(there)}; a path is written in double quotes" if there else ""
        raise NotFound(f"there is no Delta table '{name}' here", fix=fix)
    return found


def _run(sql: str, tables: dict[str, Any]) -> pa.Table:
    from deltalake import QueryBuilder
    from deltalake.exceptions import DeltaError

    builder = QueryBuilder()
    for name, table in tables.items():
        builder.register(name, table)
    try:
        found = pa.RecordBatchReader.from_stream(builder.execute(sql)).read_all()
    except (DeltaError, OSError, ValueError) as error:
        raise BadInput(f"the query fails: {one_line(' '.join(str(error).split()))}") from None
    twice = next((name for name, count in Counter(found.schema.names).items() if count > 1), None)
    if twice is not None:
        raise BadInput(f"two columns are called '{twice}': name one of them with AS")
    return found
