import datetime
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from penstock import errors as errors_of_penstock
from penstock.record.columns import RESERVED
from penstock.steps.python import Python
from penstock.steps.step import StepContext

from support.events import FAILED, batch
from support.python_step import EVERY, THREE, On, Run, errors, users

AGAIN = "def f(given):\n    return given\n"


@pytest.mark.parametrize("on", EVERY)
def test_what_a_function_gives_back_unchanged_stays_to_the_last_bit(run: Run, on: On) -> None:
    schema = (
        "i bigint, j int, f double, g float, b boolean, s string, y binary, d date, t timestamp, n timestamp_ntz,"
        " m decimal(38,10), l array<string>, st struct<x: int>, mp map<string, int>"
    )
    last = datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC)
    values = (
        *(2**53 + 1, 7, 0.1, 0.5, True, "ü\x00😀", b"\xff", datetime.date(1, 1, 1), last, last.replace(tzinfo=None)),
        *(Decimal("1234567890123456789012345678.0123456789"), ["a", None], {"x": 1}, {"k": 1}),
    )
    given = batch(schema, [values, (None,) * len(values)])

    assert [values, (None,) * len(values)] == users(run(AGAIN, given, on=on))


@pytest.mark.parametrize("on", ["rows", "arrow"])
def test_a_number_that_is_none_is_not_null(run: Run, on: On) -> None:
    ((actual,),) = users(run(AGAIN, batch("a double", [(float("nan"),)]), on=on))

    assert "nan" == str(actual)


@pytest.mark.parametrize("on", EVERY)
def test_the_columns_of_penstock_come_back_as_they_were(run: Run, on: On) -> None:
    actual = run(AGAIN, THREE, on=on)

    names = RESERVED.names
    assert [{name: row[name] for name in names} for row in THREE.to_pylist()] == [
        {name: row[name] for name in names} for row in actual
    ]


@pytest.mark.parametrize("on", EVERY)
def test_failed_rows_pass_by_and_the_function_never_sees_them(run: Run, on: On) -> None:
    given = batch("a bigint, s string", [(1, "x"), (None, None), (3, "z")], failed=(1,))
    whole = {"rows": "given['a']", "pandas": "given.a.notna().all()", "arrow": "given['a'].null_count == 0"}[on]

    actual = run(f"def f(given):\n    assert {whole}\n    return given\n", given, on=on)

    assert [(1, "x"), (None, None), (3, "z")] == users(actual)
    assert [None, FAILED, None] == [row["_error"] for row in actual]
    assert b"v101" == actual[1]["_value"]


@pytest.mark.parametrize("on", EVERY)
def test_a_chunk_of_failed_rows_only_passes_by(run: Run, on: On) -> None:
    actual = run("def f(given):\n    raise ValueError\n", batch("a int", [(None,), (None,)], failed=(0, 1)), on=on)

    assert [FAILED, FAILED] == [row["_error"] for row in actual]


@pytest.mark.parametrize("on", EVERY)
def test_chunk_after_chunk_is_handled_and_an_empty_one_gives_nothing(run: Run, on: On) -> None:
    empty = THREE.slice(0, 0)

    assert [1, 1, 2, 2, 3, 3] == [row["a"] for row in run(AGAIN, THREE, empty, THREE, on=on)]


RAISING = {
    "rows": "def f(row):\n    if row['s'] == 'y':\n        raise KeyError('no y')\n    return row\n",
    "pandas": "def f(frame):\n    if (frame.s == 'y').any():\n        raise KeyError('no y')\n    return frame\n",
    "arrow": "def f(table):\n    if 'y' in table['s'].to_pylist():\n        raise KeyError('no y')\n    return table\n",
}


@pytest.mark.parametrize("on", EVERY)
def test_an_exception_fails_the_record_it_came_from_and_no_other(run: Run, on: On) -> None:
    given = batch("a bigint, s string", [(number, "y" if number in {3, 4, 9} else "x") for number in range(13)])

    actual = run(RAISING[on], given, on=on)

    assert [(103, "KeyError"), (104, "KeyError"), (109, "KeyError")] == errors(actual)
    line = actual[3]["_error"].pop("line")
    assert {"stage": "step", "error": "KeyError", "message": "'no y'"} == actual[3]["_error"]
    assert re.fullmatch(r"steps_of_test_\d+\.py:3: raise KeyError\('no y'\)", line)
    assert [(None, None) if at in {3, 4, 9} else (at, "x") for at in range(13)] == users(actual)


@pytest.mark.parametrize("on", EVERY)
def test_a_function_that_always_raises_fails_every_record(run: Run, on: On) -> None:
    actual = run("def f(given):\n    raise RuntimeError\n", THREE, on=on)

    assert [(100, "RuntimeError"), (101, "RuntimeError"), (102, "RuntimeError")] == errors(actual)
    assert "RuntimeError" == actual[0]["_error"]["message"]


@pytest.mark.parametrize("on", EVERY)
@pytest.mark.parametrize("what", ["StopIteration", "AssertionError", "RecursionError", "MemoryError"])
def test_any_exception_is_that_records_fault(run: Run, on: On, what: str) -> None:
    assert 3 == len(errors(run(f"def f(given):\n    raise {what}('x')\n", THREE, on=on)))


@pytest.mark.parametrize("on", EVERY)
@pytest.mark.parametrize(
    "code",
    [
        pytest.param("def f(given):\n    raise ValueError('\\ud800')\n", id="half a character"),
        pytest.param(
            "class Bad(Exception):\n    def __str__(self):\n        raise ValueError\ndef f(given):\n    raise Bad\n",
            id="cannot be shown",
        ),
        pytest.param("def f(given):\n    raise ValueError('x' * 1_000_000)\n", id="very long"),
    ],
)
def test_an_exception_whose_message_is_odd_fails_the_record_all_the_same(run: Run, on: On, code: str) -> None:
    actual = run(code, THREE, on=on)

    assert 3 == len(errors(actual))
    assert all(500 >= len(row["_error"]["message"]) for row in actual)


def test_none_drops_the_event(run: Run) -> None:
    actual = run("def f(row):\n    return row if row['s'] != 'y' else None\n", THREE)

    assert [100, 102] == [row["_offset"] for row in actual]


def test_a_row_shows_where_it_came_from_and_cannot_change_it(run: Run) -> None:
    code = "def f(row):\n    seen = f\"{row['_topic']}/{row['_partition']}/{row['_offset']}\"\n    row['_offset'] = 0\n"
    code += "    return {'s': seen, '_offset': 7}\n"

    actual = run(code, THREE)

    assert ["orders/0/100", "orders/0/101", "orders/0/102"] == [row["s"] for row in actual]
    assert [100, 101, 102] == [row["_offset"] for row in actual]


@pytest.mark.parametrize("result", ["[1]", "7", "'text'", "(1, 2)", "True", "iter([])"])
def test_a_row_that_is_no_dictionary_fails_its_record(run: Run, result: str) -> None:
    actual = run(f"def f(row):\n    return {result}\n", THREE)

    assert [True] * 3 == ["not a dictionary or None" in row["_error"]["message"] for row in actual]


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        ("bigint", "2**63"),
        ("bigint", "'5'"),
        ("bigint", "True"),
        ("bigint", "1.5"),
        ("bigint", "Decimal('1.5')"),
        ("bigint", "float('nan')"),
        ("tinyint", "128"),
        ("float", "1e39"),
        ("string", "5"),
        ("string", "'\\ud800'"),
        ("boolean", "1"),
        ("decimal(5,2)", "1.5"),
        ("date", "'2026-01-31'"),
        ("timestamp", "'2026-01-31'"),
        ("timestamp", "datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))"),
        ("timestamp", "1577836800.5"),
        ("timestamp", "pandas.Timestamp('2026-01-31T00:00:00.000000001')"),
        ("timestamp_ntz", "datetime(2026, 1, 31, tzinfo=timezone.utc)"),
        ("date", "datetime(2026, 1, 31, 23, 5)"),
        ("date", "20484.5"),
        ("array<date>", "[datetime(2026, 1, 31, 23, 5)]"),
        ("array<int>", "['x']"),
        ("array<int>", "[1, 1.5]"),
        ("array<int>", "[object()]"),
        ("array<int>", "5"),
        ("array<int>", "b'ab'"),
        ("array<string>", "'red'"),
        ("array<string>", "uuid.UUID(int=1)"),
        ("struct<x: int>", "{'x': 'y'}"),
        ("struct<x: int, y: string>", "{'x': 1, 'z': 'q'}"),
        ("array<struct<x: int>>", "[{'xx': 1}]"),
        ("struct<x: int>", "{'x': 1.5}"),
        ("struct<x: int NOT NULL>", "{}"),
        ("map<string, int>", "{'x': 'y'}"),
        ("map<string, int>", "{'x': 1.5}"),
        ("map<string, int>", "[('a', 1), ('a', 2)]"),
    ],
)
def test_a_value_that_does_not_fit_its_column_fails_its_record(run: Run, kind: str, result: str) -> None:
    code = "import pandas, uuid\nfrom datetime import datetime, timedelta, timezone\nfrom decimal import Decimal\n"
    code += f"def f(row):\n    return {{'r': {result} if row['s'] == 'y' else None}}\n"

    actual = run(code, THREE, returns=f"r {kind}")

    assert [(101, "SchemaMismatch")] == errors(actual)
    assert {"step"} == {row["_error"]["stage"] for row in actual if row["_error"] is not None}
    assert [(None,)] * 3 == users(actual)


@pytest.mark.parametrize(
    ("kind", "result", "expected"),
    [
        ("bigint", "2.0", 2),
        ("bigint", "numpy.int64(2**53 + 1)", 2**53 + 1),
        ("float", "float('inf')", float("inf")),
        ("date", "datetime(2026, 1, 31)", datetime.date(2026, 1, 31)),
        ("array<int>", "[1.0, None]", [1, None]),
        ("array<string>", "('a', 'b')", ["a", "b"]),
        ("struct<x: int, y: int>", "{'x': 1}", {"x": 1, "y": None}),
        ("struct<x: int>", "{'x': 1, 'more': 2}", {"x": 1}),
        ("map<string, int>", "[('a', 1)]", {"a": 1}),
    ],
)
def test_a_value_that_is_the_same_in_its_column_fits(run: Run, kind: str, result: str, expected: Any) -> None:
    code = f"import numpy\nfrom datetime import datetime\ndef f(row):\n    return {{'r': {result}}}\n"
    actual = run(code, THREE, returns=f"r {kind}")

    assert ([], [(expected,)] * 3) == (errors(actual), users(actual))


@pytest.mark.parametrize("on", EVERY)
def test_a_required_column_that_stays_empty_fails_its_record(run: Run, on: On) -> None:
    code = {
        "rows": "def f(row):\n    return {'r': None if row['s'] == 'y' else 1}\n",
        "pandas": "def f(frame):\n    frame['r'] = [None if s == 'y' else 1 for s in frame.s]\n    return frame\n",
        "arrow": "import pyarrow as pa\ndef f(table):\n"
        "    return pa.table({'r': [None if s == 'y' else 1 for s in table['s'].to_pylist()]})\n",
    }[on]

    assert [101] == [at for at, _ in errors(run(code, THREE, on=on, returns="r int NOT NULL"))]


def test_columns_that_a_row_lacks_are_null_and_those_it_adds_are_left_out(run: Run) -> None:
    assert [(1, None), (2, None), (3, None)] == users(run("def f(row):\n    return {'a': row['a']}\n", THREE))
    more = run("def f(row):\n    return {**row, 'zz': 1}\n", THREE)
    assert [1, 2, 3] == [row["a"] for row in more]


def test_a_name_that_is_nowhere_in_place_of_a_column_fails_its_record_rather_than_making_it_null(run: Run) -> None:
    actual = run("def f(row):\n    return {'aa': row['a'], 's': row['s']}\n", THREE)

    said = "the function returned 'aa', which is not a column, and lacks a"
    assert [said] * 3 == [row["_error"]["message"] for row in actual]


@pytest.mark.parametrize("on", EVERY)
def test_a_function_may_give_other_columns(run: Run, on: On) -> None:
    code = {
        "rows": "def f(row):\n    return {'twice': row['a'] * 2}\n",
        "pandas": "def f(frame):\n    return frame.assign(twice=frame.a * 2)\n",
        "arrow": "import pyarrow.compute as pc\ndef f(table):\n"
        "    return table.append_column('twice', pc.multiply(table['a'], 2))\n",
    }[on]

    assert [(2,), (4,), (6,)] == users(run(code, THREE, on=on, returns="twice int"))


def test_the_schema_that_comes_out_may_be_null_everywhere_and_ends_with_the_columns_of_penstock(tmp_path: Path) -> None:
    task = Python(python="m:f", returns="x int NOT NULL, y string").open(StepContext(THREE.schema, tmp_path, tmp_path))

    assert ["x", "y", *RESERVED.names] == task.schema.names
    assert task.schema.field("x").nullable


@pytest.mark.parametrize("on", EVERY)
@pytest.mark.parametrize("kind", ["Transient", "BadInput"])
def test_an_outage_that_a_function_raises_is_no_records_fault(run: Run, on: On, kind: str) -> None:
    code = f"from penstock.errors import {kind}\ndef f(x):\n    raise {kind}('the directory does not answer')\n"

    with pytest.raises(getattr(errors_of_penstock, kind), match="the directory does not answer"):
        run(code, batch("id bigint", [(1,), (2,), (3,)]), on=on)
