"""What changes of a table need before they can be merged by key, inside the transaction that merges them.

A truncate takes out what came before it, in the table and among the staged rows. A value that a change leaves out
because it stayed the same is the one that the row had: after the change before it, or in the table; of a row that got
another key, under the old one (`sinks/moved.py`).
"""

from typing import TYPE_CHECKING, Any

from penstock.record.decoded import RecordError
from penstock.sinks.changes import key_unknown, several_partitions, value_unknown
from penstock.sinks.moved import Move, origins
from penstock.sinks.postgres_insert import identifiers, same_key

if TYPE_CHECKING:
    import psycopg

# ruff: noqa: S608 - names are put in by psycopg, quoted; values are parameters
_TRUNCATES = """
SELECT _topic_id, _partition, max(_offset) FROM {stage} WHERE _stage = ANY(%s) AND _op = 'truncate' GROUP BY 1, 2"""
_ELSEWHERE = """
SELECT EXISTS (SELECT FROM {table} WHERE _topic_id = %(id)s AND _partition <> %(partition)s)
    OR EXISTS (SELECT FROM {stage} WHERE _topic_id = %(id)s AND _partition <> %(partition)s)"""
_FORGET = "DELETE FROM {stage} WHERE _topic_id = %s AND _offset <= %s"
_TAKE_OUT = "DELETE FROM {table} WHERE _topic_id = %s AND _offset < %s"

_WITHOUT_KEY = """
SELECT _stage, _at FROM {stage} WHERE _stage = ANY(%s) AND _op IS DISTINCT FROM 'truncate' AND {column} IS NULL"""
_UNCHANGED = "SELECT DISTINCT unnest(_unchanged) FROM {stage} WHERE _stage = ANY(%s)"
# Each change without the value belongs to the last one before it that has the value, or takes the row out: they have
# the same number. A value that is left out is never null (`sinks/changes.py`).
# Names begin with an underscore, as no column of a user's does.
_KNOWN = """
WITH _marked AS (
    SELECT *, _op IS NULL AND array_position(_unchanged, %(name)s::text) IS NOT NULL AS _is_unchanged
    FROM {stage} WHERE _stage = ANY(%(stages)s)
), _numbered AS (
    SELECT _row, _stage, _at, _topic_id, _partition, _offset, {key}, _is_unchanged,
        CASE WHEN _op IS NULL THEN {column} END AS _given,
        count(*) FILTER (WHERE NOT _is_unchanged) OVER (PARTITION BY {key} ORDER BY _offset, _row) AS _number
    FROM _marked
), _known AS (
    SELECT *, first_value(_given) OVER (PARTITION BY {key}, _number ORDER BY _offset, _row) AS _before,
        max(_number) OVER (PARTITION BY {key}) AS _last_number
    FROM _numbered
)"""
_FILL_IN = f"""{_KNOWN}
UPDATE {{stage}} AS _staged SET {{column}} = CASE WHEN _number > 0 THEN _known._before ELSE _old.{{column}} END
FROM _known LEFT JOIN {{table}} AS _old ON {{same_key}}
WHERE _staged._row = _known._row AND _known._is_unchanged"""
# What comes before the last one of a key that knows the value, or is older than what the table has, changes nothing.
_UNKNOWN = f"""{_KNOWN}
SELECT _stage, _at FROM _known LEFT JOIN {{table}} AS _old ON {{same_key}}
WHERE _is_unchanged AND _number = _last_number
    AND CASE WHEN _number > 0 THEN _known._before ELSE _old.{{column}} END IS NULL
    AND ((_old._topic_id, _old._partition) = (_known._topic_id, _known._partition)
        AND _old._offset >= _known._offset) IS NOT TRUE"""

_LEFT_OUT_BY_MOVED = f"{_UNCHANGED} AND _moved_from IS NOT NULL"
_MOVES = """
SELECT _row, _topic_id, _partition, _offset, _moved_from, _op, _unchanged, dense_rank() OVER (ORDER BY {key}),
    array_remove(ARRAY[{known}]::text[], NULL)
FROM {stage} WHERE _stage = ANY(%s) ORDER BY _offset, _row"""
_IN_TABLE = """
SELECT _row FROM {stage} AS _staged JOIN {table} AS _old ON {same_key} WHERE _staged._row = ANY(%s)"""
_MOVE = """
UPDATE {stage} AS _new SET {column} = _from.{column}, _unchanged = array_remove(_new._unchanged, %(name)s::text)
FROM unnest(%(numbers)s::bigint[], %(origins)s::bigint[]) AS _pair(_number, _origin) JOIN {stage} AS _staged
    ON _staged._row = _origin"""
_MOVE_IN_BATCH = _MOVE.replace("_from.{column}", "_staged.{column}") + " WHERE _new._row = _number"
_MOVE_FROM_TABLE = f"""{_MOVE.replace("_from.{column}", "_old.{column}")} JOIN {{table}} AS _old ON {{same_key}}
    AND (_old._topic_id, _old._partition) = (_staged._topic_id, _staged._partition) AND _old._offset < _staged._offset
WHERE _new._row = _number AND _old.{{column}} IS NOT NULL"""


def truncate(connection: "psycopg.Connection[Any]", table: Any, stage: Any, stages: list[str], shown: str) -> None:
    """Take out the rows that came before a truncate; raise if which those are is not known."""
    from psycopg import sql

    names = {"table": table, "stage": stage}
    for topic_id, partition, offset in connection.execute(sql.SQL(_TRUNCATES).format(**names), [stages]).fetchall():
        where = {"id": topic_id, "partition": partition}
        (elsewhere,) = connection.execute(sql.SQL(_ELSEWHERE).format(**names), where).fetchone() or (False,)
        if elsewhere:
            raise several_partitions(f"the table {shown}", partition, offset)
        connection.execute(sql.SQL(_FORGET).format(**names), [topic_id, offset])
        connection.execute(sql.SQL(_TAKE_OUT).format(**names), [topic_id, offset])


def fill_in(
    connection: "psycopg.Connection[Any]", table: Any, stage: Any, stages: list[str], key: list[str]
) -> list[tuple[str, int, RecordError]]:
    """Fill in the values that staged changes leave out; return those that nobody knows, or that have no key."""
    from psycopg import sql

    unknown = dict[tuple[str, int], RecordError]()
    for name in key:
        # The queries have parameters, and psycopg does not double the % of names.
        query = sql.SQL(_WITHOUT_KEY).format(stage=stage, column=sql.Identifier(name.replace("%", "%%")))
        unknown |= {(staged, at): key_unknown(name) for staged, at in connection.execute(query, [stages]).fetchall()}
    key = [name.replace("%", "%%") for name in key]
    _fill_in_moved(connection, table, stage, stages, key)
    for (name,) in connection.execute(sql.SQL(_UNCHANGED).format(stage=stage), [stages]).fetchall():
        parts = {
            "table": table,
            "stage": stage,
            "key": identifiers(key),
            "column": sql.Identifier(name.replace("%", "%%")),
            "same_key": same_key("_old", "_known", key),
        }
        values = {"name": name, "stages": stages}
        found = connection.execute(sql.SQL(_UNKNOWN).format(**parts), values).fetchall()
        unknown |= {(staged, at): value_unknown(name) for staged, at in found}
        connection.execute(sql.SQL(_FILL_IN).format(**parts), values)
    return [(staged, at, error) for (staged, at), error in unknown.items()]


def _fill_in_moved(
    connection: "psycopg.Connection[Any]", table: Any, stage: Any, stages: list[str], key: list[str]
) -> None:
    """Fill rows with a changed key with the values that their old rows had, in the table or in changes of the batch."""
    from psycopg import sql

    names = [name for (name,) in connection.execute(sql.SQL(_LEFT_OUT_BY_MOVED).format(stage=stage), [stages])]
    if not names:
        return
    columns = {name: sql.Identifier(name.replace("%", "%%")) for name in names}
    known = sql.SQL(", ").join(
        sql.SQL("CASE WHEN {} IS NOT NULL THEN {} END").format(each, sql.Literal(name.replace("%", "%%")))
        for name, each in columns.items()
    )
    parts = {"table": table, "stage": stage, "same_key": same_key("_old", "_staged", key)}
    query = sql.SQL(_MOVES).format(key=identifiers(key), known=known, **parts)
    staged = connection.execute(query, [stages]).fetchall()
    places = {tuple(each[1:4]): number for number, each in enumerate(staged)}
    moves = [
        Move(its_key, op, unchanged or (), has, places.get((topic_id, partition, moved_from)))
        for _, topic_id, partition, _, moved_from, op, unchanged, its_key, has in staged
    ]
    numbers = [staged[number][0] for number, each in enumerate(moves) if each.taken_out is not None]
    there = {row for (row,) in connection.execute(sql.SQL(_IN_TABLE).format(**parts), [numbers])}
    found = origins(moves, lambda number: staged[number][0] in there)
    for name, column in columns.items():
        pairs = [(staged[number][0], origin) for (number, each), origin in found.items() if each == name]
        for statement, of_statement in (
            (_MOVE_IN_BATCH, [(row, staged[origin][0]) for row, origin in pairs if origin >= 0]),
            (_MOVE_FROM_TABLE, [(row, staged[~origin][0]) for row, origin in pairs if origin < 0]),
        ):
            values = {
                "name": name,
                "numbers": [row for row, _ in of_statement],
                "origins": [at for _, at in of_statement],
            }
            connection.execute(sql.SQL(statement).format(column=column, **parts), values)
