"""How staged rows get into a PostgreSQL table: appended, or merged by key; the rows that it refuses are found."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.errors import BatchAborted
from penstock.record.decoded import RecordError
from penstock.record.positions import OffsetRange
from penstock.sinks.postgres_refusals import find_refused, may_be_of_a_row, refusal_of
from penstock.sinks.sink import Staged, overlaps

if TYPE_CHECKING:
    import psycopg

_STAGED = "FROM {stage} WHERE _stage = ANY(%(stages)s) AND _row BETWEEN %(first)s AND %(last)s"
# ruff: noqa: S608 - names are put in by psycopg, quoted; values are parameters
_APPEND = f"INSERT INTO {{table}} ({{columns}}) SELECT {{columns}} {_STAGED} ORDER BY _row"
_UPSERT = f"""
INSERT INTO {{table}} AS old ({{columns}})
SELECT {{columns}} FROM (
    SELECT DISTINCT ON ({{key}}) * {_STAGED} ORDER BY {{key}}, _offset DESC, _row DESC
) AS newest
ON CONFLICT ({{key}}) DO UPDATE SET {{assignments}} WHERE {{is_newer}}"""
_CHANGED = _UPSERT.replace(") AS newest", ") AS newest WHERE _op IS NULL")
_TAKE_OUT = f"""
DELETE FROM {{table}} AS old USING (
    SELECT DISTINCT ON ({{key}}) * {_STAGED} ORDER BY {{key}}, _offset DESC, _row DESC
) AS excluded
WHERE excluded._op = 'delete' AND {{same_key}} AND ({{is_newer}})"""
_NEWER = (
    "(old._topic_id, old._partition) IS DISTINCT FROM (excluded._topic_id, excluded._partition)"
    " OR old._offset < excluded._offset"
)
# What is replayed is the past: it gives way to every row of another partition, too, for that may be newer.
_NEWER_THAN_THE_PAST = (
    "(old._topic_id, old._partition) = (excluded._topic_id, excluded._partition) AND old._offset < excluded._offset"
)

_WITHIN = "DELETE FROM {table} WHERE _topic_id = %s AND _partition = %s AND _offset >= %s AND _offset < %s"
_WITHIN_OF_KEYS = f"{_WITHIN} AND ({{key}}) IN (SELECT {{key}} FROM {{stage}} WHERE _stage = ANY(%s))"


def identifiers(names: Iterable[str]) -> Any:
    """Quote names and list them."""
    from psycopg import sql

    return sql.SQL(", ").join(map(sql.Identifier, names))


def insert_statements(
    table: Any, stage: Any, columns: list[str], key: list[str], *, of_the_past: bool, has_changes: bool
) -> list[Any]:
    """Return what moves staged rows; without a key they are appended, and changes take rows out, too."""
    from psycopg import sql

    # The query has parameters, and psycopg does not double the % of names.
    columns = [name.replace("%", "%%") for name in columns]
    key = [name.replace("%", "%%") for name in key]
    names = {"table": table, "stage": stage, "columns": identifiers(columns)}
    if not key:
        return [sql.SQL(_APPEND).format(**names)]
    assignments = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in columns)
    is_newer = sql.SQL(_NEWER_THAN_THE_PAST if of_the_past else _NEWER)
    names |= {"key": identifiers(key), "is_newer": is_newer}
    if not has_changes:
        return [sql.SQL(_UPSERT).format(assignments=assignments, **names)]
    # Rows go first: one that comes may have what must be unique in the table.
    taken_out = sql.SQL(_TAKE_OUT).format(same_key=same_key("old", "excluded", key), **names)
    return [taken_out, sql.SQL(_CHANGED).format(assignments=assignments, **names)]


def same_key(one: str, other: str, key: list[str]) -> Any:
    """Compare the keys of two rows, in names that a query with parameters takes."""
    from psycopg import sql

    return sql.SQL(" AND ").join(
        sql.SQL("{} = {}").format(sql.Identifier(one, name), sql.Identifier(other, name)) for name in key
    )


def take_out(
    connection: "psycopg.Connection[Any]",
    names: dict[str, Any],
    key: list[str],
    staged: Staged,
    replaced: Sequence[OffsetRange],
) -> None:
    """Make room for staged rows of the past: those of the same records go.

    Of a key, an earlier record may be what is left of the range, so a later row of it goes, too; the others stay until
    it is their turn, and a replay that dies half way leaves no key without a row.
    """
    from psycopg import sql

    for part in overlaps(replaced, staged.offset_range):
        connection.execute(sql.SQL(_WITHIN).format(**names), _bounds(part))
    if key and staged.rows:
        columns = identifiers(name.replace("%", "%%") for name in key)
        behind = replace(staged.offset_range, start=staged.offset_range.end, end=replaced[-1].end)
        for part in overlaps(replaced, behind):
            values = [*_bounds(part), [staged.detail["stage"]]]
            connection.execute(sql.SQL(_WITHIN_OF_KEYS).format(key=columns, **names), values)


def _bounds(part: OffsetRange) -> list[Any]:
    return [part.source_partition.topic_id, part.source_partition.partition, part.start, part.end]


def insert_or_refuse(
    connection: "psycopg.Connection[Any]", statements: list[Any], stage: Any, stages: list[str], sink: str
) -> list[tuple[str, int, RecordError]]:
    """Move staged rows into the table, or take everything back: give the attempt, offset and error of each refused."""
    import psycopg

    try:
        insert(connection, statements, stages)
    except psycopg.Error as error:
        if not may_be_of_a_row(error):
            raise
        found = refused_rows(connection, statements, stage, stages)
    else:
        return []
    connection.rollback()
    if not found:
        raise BatchAborted(f"the rows that the table of sink '{sink}' refused are not refused any more")
    return [(attempt, offset, refusal_of(error)) for attempt, offset, error in found]


def insert(
    connection: "psycopg.Connection[Any]", statements: list[Any], stages: list[str], first: int = 0, last: int = 2**62
) -> None:
    """Move staged rows; after an error the transaction is as it was before."""
    with connection.transaction():
        for each in statements:
            connection.execute(each, {"stages": stages, "first": first, "last": last})
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")


def refused_rows(
    connection: "psycopg.Connection[Any]", statements: list[Any], stage: Any, stages: list[str]
) -> list[tuple[str, int, "psycopg.Error"]]:
    """Find the rows that the table refuses: give the attempt, the offset and the error of each."""
    from psycopg import sql

    query = sql.SQL("SELECT _row, _stage, _at FROM {} WHERE _stage = ANY(%s) ORDER BY _row")
    rows = connection.execute(query.format(stage), [stages]).fetchall()

    def write(first: int, last: int) -> None:
        if first == last:
            insert(connection, statements, [])
        else:
            insert(connection, statements, stages, rows[first][0], rows[last - 1][0])

    return [(rows[number][1], rows[number][2], error) for number, error in find_refused(len(rows), write)]
