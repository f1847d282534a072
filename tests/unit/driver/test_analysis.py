"""What Spark said about SQL is kept: the next start need not ask."""

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.driver.analysis import Analysis

BEFORE = pa.schema([pa.field("id", pa.int64(), nullable=False)])
AFTER = pa.schema([pa.field("id", pa.int64()), pa.field("at", pa.timestamp("us", "UTC"))])


def never() -> pa.Schema:
    raise AssertionError("Spark was asked again")


def test_an_answer_is_given_again_without_asking(tmp_path: Path) -> None:
    path = tmp_path / "analysis.json"
    first = Analysis(path, {}).columns(BEFORE, ["select", "SELECT 1"], lambda: AFTER)

    again = Analysis(path, {}).columns(BEFORE, ["select", "SELECT 1"], never)

    assert AFTER == first
    assert AFTER.equals(again, check_metadata=True)


@pytest.mark.parametrize(
    ("before", "sql", "settings"),
    [
        (AFTER, "SELECT 1", {}),
        (BEFORE, "SELECT 2", {}),
        (BEFORE, "SELECT 1", {"spark.sql.ansi.enabled": "false"}),
    ],
)
def test_other_columns_other_sql_and_other_settings_are_asked_again(
    tmp_path: Path, before: pa.Schema, sql: str, settings: dict[str, str]
) -> None:
    path = tmp_path / "analysis.json"
    Analysis(path, {}).columns(BEFORE, ["select", "SELECT 1"], lambda: AFTER)

    with pytest.raises(AssertionError, match="asked again"):
        Analysis(path, settings).columns(before, ["select", sql], never)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"a": 1}', b'{"a": "AAAA"}'])
def test_a_damaged_file_costs_a_question_and_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "analysis.json"
    path.write_bytes(content)

    asked = Analysis(path, {}).columns(BEFORE, ["select", "SELECT 1"], lambda: AFTER)

    assert AFTER == asked
    assert AFTER == Analysis(path, {}).columns(BEFORE, ["select", "SELECT 1"], never)
