import datetime
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from penstock import errors as errors_of_penstock
from penstock.record.columns import RESERVED
from penstock.steps.python import Python
from penstock.steps.step import StepContext

from support.events import FAILED, batch

On = Literal["rows", "pandas", "arrow"]
EVERY: tuple[On, ...] = ("rows", "pandas", "arrow")
_numbers = itertools.count(1)


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Write a module of the user's beside the pipeline file, under a name that no other test uses; give its name."""
    path = list(sys.path)

    def write(code: str) -> str:
        name = f"steps_of_test_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(code)
        return name

    yield write
    sys.path[:] = path


@pytest.fixture
def run(module: Callable[[str], str], tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Run a function `f` over chunks; give the rows that come out, in the order of their offsets."""

    def run_it(
        code: str, *batches: pa.RecordBatch, on: On = "rows", returns: str | None = None
    ) -> list[dict[str, Any]]:
        spec = Python(python=f"{module(code)}:f", on=on, returns=returns)
        task = spec.open(StepContext(batches[0].schema, tmp_path, tmp_path / "notes"))
        out = pa.Table.from_batches(task(iter(batches), 0), task.schema)
        out.validate(full=True)
        return sorted(out.to_pylist(maps_as_pydicts="strict"), key=lambda row: int(row["_offset"]))

    return run_it


Run = Callable[..., list[dict[str, Any]]]


def users(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(value for name, value in row.items() if not name.startswith("_")) for row in rows]


def errors(rows: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(row["_offset"], row["_error"]["error"]) for row in rows if row["_error"] is not None]


THREE = batch("a bigint, s string", [(1, "x"), (2, "y"), (3, "z")])
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


_TABLES: dict[On, str] = {
    "pandas": "frame['r'] = pandas.array([{0}, {1}, {0}]{2})[frame.index + 3]\n    return frame",
    "arrow": (
        "return pyarrow.table({{'r': pyarrow.array([{0}, {1}, {0}]{2}).take(pyarrow.compute.subtract(frame['a'], 1))}})"
    ),
}


@pytest.mark.parametrize(
    ("on", "kind", "fits", "does_not", "made_as"),
    [
        ("arrow", "float", "0.1", "1e300", ""),
        ("arrow", "float", "float('inf')", "-1e39", ""),
        ("arrow", "decimal(10,2)", "1.5", "1.005", ""),
        ("arrow", "boolean", "1", "2", ""),
        ("arrow", "date", "datetime(2026, 1, 31)", "datetime(2026, 1, 31, 0, 0, 1)", ""),
        ("arrow", "timestamp_ntz", "None", "datetime(2026, 1, 31, 9)", ", pyarrow.timestamp('us', 'Europe/Berlin')"),
        ("arrow", "array<float>", "[0.1, None]", "[1.0, 1e300]", ""),
        ("arrow", "struct<x: date>", "{'x': datetime(2026, 1, 31)}", "{'x': datetime(2026, 1, 31, 1)}", ""),
        ("arrow", "map<string, float>", "[('k', 1.5)]", "[('k', 1e300)]", ", pyarrow.map_('string', 'double')"),
        ("pandas", "float", "0.1", "1e300", ", dtype='float64'"),
        ("pandas", "boolean", "1", "2", ", dtype='int64'"),
        ("pandas", "date", "pandas.Timestamp(2026, 1, 31)", "pandas.Timestamp(2026, 1, 31, 1)", ""),
        ("pandas", "date", "datetime(2026, 1, 31)", "datetime(2026, 1, 31, 1)", ", dtype=object"),
        ("pandas", "float", "0.1", "1e300", ", dtype=object"),
    ],
)
def test_a_value_of_many_that_its_column_cannot_hold_fails_its_record_alone(
    run: Run, on: On, kind: str, fits: str, does_not: str, made_as: str
) -> None:
    body = _TABLES[on].format(fits, does_not, made_as)
    code = f"import pandas, pyarrow, pyarrow.compute\nfrom datetime import datetime\ndef f(frame):\n    {body}\n"

    actual = run(code, THREE, on=on, returns=f"r {kind}")

    assert [(101, "SchemaMismatch")] == errors(actual)
    assert users(actual)[0] == users(actual)[2]


@pytest.mark.parametrize(
    ("kind", "made", "expected"),
    [
        ("struct<x: bigint, y: string>", "{'y': 'q', 'x': 1}", {"x": 1, "y": "q"}),
        ("struct<x: double>", "{'x': 1, 'more': 'q'}", {"x": 1.0}),
        ("struct<x: bigint, y: string>", "{'x': 1, 'z': 'q'}", None),
        ("array<struct<x: bigint>>", "[{'xx': 1}]", None),
        ("map<string, struct<x: bigint>>", "[('k', {'xx': 1})]", None),
    ],
)
def test_fields_of_tables_are_found_by_name_and_a_misnamed_one_is_no_null(
    run: Run, kind: str, made: str, expected: Any
) -> None:
    as_map = ", pyarrow.map_('string', pyarrow.struct({'xx': pyarrow.int64()}))" if kind.startswith("map") else ""
    column = f"pyarrow.array([{made}] * len(table){as_map})"
    code = f"import pyarrow\ndef f(table):\n    return pyarrow.table({{'r': {column}}})\n"

    actual = run(code, THREE, on="arrow", returns=f"r {kind}")

    fails = [] if expected is not None else [(100 + number, "SchemaMismatch") for number in range(3)]
    assert (fails, [(expected,)] * 3) == (errors(actual), users(actual))


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


def test_a_frame_may_leave_rows_out_and_they_are_dropped(run: Run) -> None:
    actual = run("def f(frame):\n    return frame[frame.s != 'y']\n", THREE, on="pandas")

    assert [(100, 1), (102, 3)] == [(row["_offset"], row["a"]) for row in actual]


def test_a_frame_may_come_back_in_another_order(run: Run) -> None:
    actual = run("def f(frame):\n    return frame.sort_values('a', ascending=False)\n", THREE, on="pandas")

    assert [(100, 1), (101, 2), (102, 3)] == [(row["_offset"], row["a"]) for row in actual]


@pytest.mark.parametrize(
    "result",
    [
        pytest.param("frame.iloc[::-1].reset_index(drop=True)", id="counted again"),
        pytest.param("frame.set_axis([-1 - n for n in frame.index])", id="below zero"),
        pytest.param("frame.set_axis([n + 1 for n in frame.index])", id="one further"),
        pytest.param("frame.set_axis([str(n) for n in frame.index])", id="no numbers"),
    ],
)
def test_a_frame_whose_index_is_not_that_of_its_rows_gives_no_record_another_ones_values(run: Run, result: str) -> None:
    actual = run(f"def f(frame):\n    return {result}\n", THREE, on="pandas")

    given = {100: (1, "x"), 101: (2, "y"), 102: (3, "z")}
    wrong = [row for row in actual if row["_error"] is None and given[row["_offset"]] != (row["a"], row["s"])]
    assert [] == wrong
    assert 3 == len(actual)


def test_a_frame_with_a_row_twice_fails_its_records_rather_than_losing_one(run: Run) -> None:
    actual = run("import pandas as pd\ndef f(frame):\n    return pd.concat([frame, frame])\n", THREE, on="pandas")

    assert [100, 101, 102] == [at for at, _ in errors(actual)]


def test_a_half_that_counts_its_rows_again_gives_no_record_another_ones_values(run: Run) -> None:
    code = "def f(frame):\n    if 'bad' in list(frame.s):\n        raise ValueError\n"
    code += "    return frame.reset_index(drop=True)\n"
    given = batch("a bigint, s string", [(number, "bad" if number == 5 else "x") for number in range(8)])

    actual = run(code, given, on="pandas")

    assert [] == [row for row in actual if row["_error"] is None and row["a"] != row["_offset"] - 100]
    assert list(range(100, 108)) == [row["_offset"] for row in actual]


@pytest.mark.parametrize("result", ["None", "[]", "frame[['a']]", "frame.assign(a='text')", "frame.a"])
def test_a_frame_that_is_none_or_lacks_columns_fails_its_records(run: Run, result: str) -> None:
    assert 3 == len(errors(run(f"def f(frame):\n    return {result}\n", THREE, on="pandas")))


def test_a_frame_is_a_copy_that_the_function_may_change_and_then_fail(run: Run) -> None:
    code = "def f(frame):\n    frame['a'] = frame['a'] * 10\n    if len(frame) > 1:\n        raise ValueError\n"
    code += "    return frame\n"

    assert [10, 20, 30] == [row["a"] for row in run(code, THREE, on="pandas")]


@pytest.mark.parametrize(
    "result", ["None", "[]", "table.slice(1)", "table.select(['a'])", "table.set_column(0, 'a', table['s'])"]
)
def test_a_table_that_is_none_or_has_other_rows_or_columns_fails_its_records(run: Run, result: str) -> None:
    assert 3 == len(errors(run(f"def f(table):\n    return {result}\n", THREE, on="arrow")))


def test_a_record_batch_in_place_of_a_table_does_not_break_the_task(run: Run) -> None:
    actual = run("def f(table):\n    return table.to_batches()[0]\n", THREE, on="arrow")

    assert [100, 101, 102] == [row["_offset"] for row in actual]


def test_a_table_of_many_parts_comes_back_whole(run: Run) -> None:
    code = "import pyarrow as pa\ndef f(table):\n"
    code += "    return pa.concat_tables([table.slice(n, 1) for n in range(table.num_rows)])\n"

    assert [(1, "x"), (2, "y"), (3, "z")] == users(run(code, THREE, on="arrow"))


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
