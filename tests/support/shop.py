"""A table of a real PostgreSQL, changed as users do, and what its mirror holds."""

import random
from decimal import Decimal
from typing import Any

import psycopg
from deltalake import DeltaTable

from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.sinks.postgres_server import Server

from support.postgres_driver import ask

NAMES = ["id", "part", "doc", "amount", "at", "day", "n", "note"]
SCHEMA = (
    "id bigint NOT NULL, part string NOT NULL, doc string, amount decimal(12,2), at timestamp, day date, n int,"
    " note string"
)
CREATE = """
CREATE TABLE orders (id bigint, part text, doc text, amount numeric(12,2), at timestamptz, day date, n integer,
    note text DEFAULT 'nothing said', PRIMARY KEY (id, part))"""
KEY = ["id", "part"]
_COLUMNS = "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0"


def play(connection: psycopg.Connection[Any], dice: random.Random, count: int) -> None:
    """Change the table as users do, a few changes in each transaction."""
    for _ in range(count):
        key = [dice.randrange(12), dice.choice("xy")]
        kind = dice.choices(["put", "n", "delete", "key", "truncate"], [6, 5, 2, 2, 0.2])[0]
        large = "".join(dice.choice("abcdef0123456789") for _ in range(6000)) if dice.random() < 0.5 else "small"
        if kind == "put":
            connection.execute(
                "INSERT INTO orders VALUES (%s, %s, %s, %s, now(), current_date, %s, %s) ON CONFLICT (id, part)"
                " DO UPDATE SET doc = excluded.doc, amount = excluded.amount, note = excluded.note",
                # A null is a null, although the column has a default.
                [*key, large, Decimal(dice.randrange(10**6)) / 100, dice.randrange(100), dice.choice([None, "said"])],
            )
        elif kind == "n":  # a large document stays as it is, and is not in the log
            connection.execute("UPDATE orders SET n = n + 1 WHERE id = %s AND part = %s", key)
        elif kind == "delete":
            connection.execute("DELETE FROM orders WHERE id = %s AND part = %s", key)
        elif kind == "key":
            connection.execute("DELETE FROM orders WHERE id = %s AND part = 'z'", key[:1])
            connection.execute("UPDATE orders SET part = 'z' WHERE id = %s AND part = %s", key)
        else:
            connection.execute("TRUNCATE orders")
        if dice.random() < 0.4:
            connection.commit()
    connection.commit()


def shop(postgres: RunningPostgres, identity: str = "DEFAULT") -> Server:
    """Make a database with the table; large documents are kept apart, and not logged when they stay the same."""
    made = postgres.database("shop")
    ask(made, CREATE)
    ask(made, "ALTER TABLE orders ALTER COLUMN doc SET STORAGE EXTERNAL")
    ask(made, f"ALTER TABLE orders REPLICA IDENTITY {identity}")
    return made


def grow(server: Server, name: str, kind: str, value: str) -> None:
    """Add a column to the table, and give it a value in some rows and in a new one."""
    ask(server, f"ALTER TABLE orders ADD COLUMN {name} {kind}")
    ask(server, f"INSERT INTO orders (id, part, {name}) VALUES (99, '{name}', '{value}')")  # noqa: S608 - our own names
    ask(server, f"UPDATE orders SET {name} = '{value}' WHERE id % 3 = 0")  # noqa: S608


def source_rows(server: Server, columns: list[str], table: str = "orders") -> list[tuple[Any, ...]]:
    """Return the rows of the source, or of a mirror of it in PostgreSQL; none while it lacks one of the columns."""
    there = {name for (name,) in ask(server, _COLUMNS, table)}
    if not {*columns} <= there:
        return []
    return ask(server, f"SELECT {', '.join(columns)} FROM {table} ORDER BY id, part")  # noqa: S608 - our own names


def replayed_rows(history: DeltaTable, columns: list[str]) -> list[tuple[Any, ...]]:
    """Return the table that a history of changes makes, applied one after the other."""
    table = dict[tuple[Any, ...], dict[str, Any]]()
    taken_out = dict[str, Any]()
    for row in sorted(history.to_pyarrow_table().to_pylist(), key=lambda each: int(each["_offset"])):
        key = tuple(row[name] for name in KEY)
        if row["change_type"] == "truncate":
            table = {}
        elif row["change_type"] == "delete":
            taken_out = table.pop(key, {})
        else:  # of a row that got another key, the one before it knows what it leaves out
            kept = {name: table.get(key, taken_out)[name] for name in row["change_unknown"]}
            table[key] = {**row, **kept}
    return sorted(tuple(row.get(name) for name in columns) for row in table.values())


def mirrored_rows(table: DeltaTable, columns: list[str]) -> list[tuple[Any, ...]]:
    """Return the rows of the mirror; none while it has not got all of the columns."""
    if not {*columns} <= {field.name for field in table.schema().fields}:
        return []
    return sorted(tuple(row.values()) for row in table.to_pyarrow_table(columns=columns).to_pylist())
