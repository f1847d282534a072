"""Python steps on whole frames and tables, of pandas and Arrow."""

from typing import Any

import pytest

from support.events import batch
from support.python_step import THREE, On, Run, errors, users

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
