"""Columns of a PostgreSQL table whose names mean something to SQL, to Arrow or to a person."""

from typing import Any

import pyarrow as pa
import pytest

from penstock.lab.bench.throwaway_postgres import RunningPostgres

from support.postgres_driver import ORDERS, Driver, ask

ODD = [
    "a.b",
    "..",
    ".a",
    "[0]",
    "a b",
    'a"b',
    "a'b",
    "a%b",
    "%s",
    "%(x)s",
    "{}",
    "select",
    "ü€😀",
    "a,b",
    "a;b",
    "a\\b",
]
STRUCT = pa.struct([("b", pa.int64())])


@pytest.mark.parametrize("is_later", [True, False], ids=["added later", "from the start"])
def test_columns_may_have_any_name(postgres: RunningPostgres, *, is_later: bool) -> None:
    server = postgres.database()
    columns: dict[str, Any] = {**ORDERS, "a": STRUCT}
    if is_later:
        with Driver(server, columns) as driver:
            driver.write([(1, "x", {"b": 1})])
    with Driver(server, {**columns, **dict.fromkeys(ODD, pa.string())}) as driver:
        driver.write([(2, "y", {"b": 2}, *ODD)], 1 if is_later else 0)

    before = [(1, {"b": 1}, *[None] * len(ODD))] if is_later else []
    found = ask(server, f"SELECT id, a, {', '.join(map(quoted, ODD))} FROM orders ORDER BY id")  # noqa: S608 - our own names
    assert [*before, (2, {"b": 2}, *ODD)] == found


@pytest.mark.parametrize("key", [ODD[:3], ODD[4:10], ODD[10:]])
def test_columns_of_a_key_may_have_any_name(postgres: RunningPostgres, key: list[str]) -> None:
    server = postgres.database()
    columns: dict[str, Any] = {**ORDERS, "a": STRUCT, **dict.fromkeys(key, pa.string())}
    with Driver(server, columns, mode="upsert", key=key) as driver:
        driver.write([(2, "y", {"b": 2}, *key), (3, "z", None, *key)])

    assert [(3, None, key[0])] == ask(server, f"SELECT id, a, {quoted(key[0])} FROM orders")  # noqa: S608 - our own names


def quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))
