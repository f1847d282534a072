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
_DIALECT = "postgres"


def query(sql: str, base: Path, as_of: str = "") -> pa.Table:
    """Run one SELECT; it can only read. A table is named by its folder: "tables/orders", or orders if it is there."""
    statement = _parsed(sql, "one SELECT belongs here: tables are read, and nothing is changed")
    made = {each.alias_or_name for each in statement.find_all(exp.CTE)}
    opened: dict[str, Any] = {}
    for number, table in enumerate(list(statement.find_all(exp.Table))):
        if not isinstance(table.this, exp.Identifier):
            raise BadInput("rows come from tables here, not from functions")
        name = ".".join(part.name for part in table.parts)
        if name in made:
            continue
        # Under a name of our own: DataFusion takes a dot for a schema, and folds capital letters.
        opened[f"t{number}"] = open_table(_folder(name, base), as_of)
        alias = table.alias or table.name.rpartition("/")[2]
        table.replace(exp.alias_(exp.to_table(f"t{number}"), exp.to_identifier(alias, quoted=True), table=True))
    return _run(statement, opened)


def rows_of(table: Any, *, columns: list[str], where: str, limit: int) -> pa.Table:
    """Return some rows of an opened table."""
    statement = exp.select(*(exp.column(each, quoted=True) for each in columns) if columns else "*").from_("t")
    if where:
        condition = _parsed(f"SELECT 1 WHERE {where}", f"'{where}' is no condition").args["where"].this
        statement = statement.where(condition)
    return _run(statement.limit(limit), {"t": table})


def count_rows(table: Any) -> int:
    """Count the rows of an opened table; the statistics of files, which a writer may leave out, are not asked."""
    found = _run(exp.select("count(*) AS rows").from_("t"), {"t": table})
    return int(found.column("rows")[0].as_py())


def _parsed(sql: str, otherwise: str) -> exp.Query:
    try:
        statements = sqlglot.parse(sql, dialect=_DIALECT)
    except SqlglotError as error:
        raise BadInput(f"this is no SQL: {one_line(str(error).splitlines()[0])}") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Query) or not statements[0].expressions:
        raise BadInput(otherwise)
    return statements[0]


def _folder(name: str, base: Path) -> Path:
    choices = [base / name, base / _FOLDER / name]
    found = next((each for each in choices if (each / "_delta_log").is_dir()), None)
    if found is None:
        there = sorted(str(each.parent.relative_to(base)) for each in base.glob("*/_delta_log"))
        there += sorted(str(each.parent.relative_to(base)) for each in base.glob("*/*/_delta_log"))
        fix = f"There are {', '.join(there)}; a path is written in double quotes" if there else ""
        raise NotFound(f"there is no Delta table '{name}' here", fix=fix)
    return found


def _run(statement: exp.Query, tables: dict[str, Any]) -> pa.Table:
    from deltalake import QueryBuilder
    from deltalake.exceptions import DeltaError

    builder = QueryBuilder()
    try:
        for name, table in tables.items():
            builder.register(name, table)
        # What was parsed is what runs: a comment or a second statement in the text has no say.
        found = pa.RecordBatchReader.from_stream(builder.execute(statement.sql(dialect=_DIALECT))).read_all()
    except (DeltaError, OSError, ValueError) as error:
        raise BadInput(f"the query fails: {one_line(' '.join(str(error).split()))}") from None
    twice = next((name for name, count in Counter(found.schema.names).items() if count > 1), None)
    if twice is not None:
        raise BadInput(f"two columns are called '{twice}': name one of them with AS")
    return found
