"""SQL over landed tables, by DataFusion, which delta-rs brings along: it starts at once."""

import re
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from penstock.errors import BadInput, NotFound, one_line
from penstock.sinks.iceberg_view import IcebergView
from penstock.sinks.query_errors import of_engine, of_parser
from penstock.sinks.table_folders import is_iceberg
from penstock.sinks.tables import missing, open_table

_FOLDER = "tables"
_DIALECT = "postgres"
_GONE = re.compile(r"Object at location .* not found")
"""What is said of a data file that a vacuum has deleted, of a version that is older than those kept."""
_QUERY = re.compile(r"[\s(]*(select|with|values|table)\b", re.IGNORECASE)
"""How a query begins; of what begins otherwise a parser complains far from the misspelt word."""


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
    if isinstance(table, IcebergView) and not where:
        return table.rows(columns, limit)
    statement = exp.select(*(exp.column(each, quoted=True) for each in columns) if columns else "*").from_("t")
    if where:
        otherwise = f"'{where}' is not a condition"
        given = _parsed(f"SELECT 1 WHERE {where}", otherwise).args.get("where")
        if given is None:  # a UNION, of which both sides have their own
            raise BadInput(otherwise)
        statement = statement.where(given.this)
    return _run(statement.limit(limit), {"t": table})


def count_rows(table: Any) -> int:
    """Count the rows of an opened table; the statistics of files, which a writer may leave out, are not asked."""
    if isinstance(table, IcebergView):
        return table.count()
    found = _run(exp.select("count(*) AS rows").from_("t"), {"t": table})
    return int(found.column("rows")[0].as_py())


def _parsed(sql: str, otherwise: str) -> exp.Query:
    is_query = _QUERY.match(sql) is not None
    if not is_query and (words := sql.split(maxsplit=1)):
        otherwise = f"{otherwise}; this begins with '{one_line(words[0])}'"
    try:
        statements = sqlglot.parse(sql, dialect=_DIALECT)
    except RecursionError:
        raise BadInput("this is not SQL: it is nested too deeply") from None
    except SqlglotError as error:
        if not is_query:
            raise BadInput(otherwise) from None
        hint = '; a path goes in double quotes, as in FROM "tables/orders"' if re.search(r"\w/\w", sql) else ""
        raise BadInput(f"this is not SQL: {of_parser(error)}{hint}") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Query) or not statements[0].selects:
        raise BadInput(otherwise)
    return statements[0]


def _folder(name: str, base: Path) -> Path:
    choices = [base / name, base / _FOLDER / name]
    found = next((each for each in choices if (each / "_delta_log").is_dir() or is_iceberg(each)), None)
    if found is None:
        error = missing(name, base, f"'{name}' here")
        end = "" if error.fix.endswith("?") else "."
        raise NotFound(error.what, fix=f"{error.fix}{end} A path goes in double quotes")
    return found


def _run(statement: exp.Query, tables: dict[str, Any]) -> pa.Table:
    from deltalake import QueryBuilder
    from deltalake.exceptions import DeltaError

    builder, text = QueryBuilder(), statement.sql(dialect=_DIALECT)
    try:
        with TemporaryDirectory(prefix="penstock-") as folder:
            for name, table in tables.items():
                is_delta = not isinstance(table, IcebergView)
                builder.register(name, table if is_delta else table.as_delta(Path(folder) / name))
            # What was parsed is what runs: a comment or a second statement in the text has no say.
            found = pa.RecordBatchReader.from_stream(builder.execute(text)).read_all()
    except (DeltaError, OSError, ValueError) as error:
        if _GONE.search(str(error)):
            raise NotFound("files of this version are gone, as a vacuum leaves it", fix="Ask for a newer one") from None
        raise BadInput(f"the query fails: {of_engine(error, text)}") from None
    twice = next((name for name, count in Counter(found.schema.names).items() if count > 1), None)
    if twice is not None:
        raise BadInput(f"two columns are called '{twice}': name one of them with AS")
    return found
