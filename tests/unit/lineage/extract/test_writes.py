"""Kinds of writes by the text of SQL: told right, and in a time that grows with the text."""

import time

import pytest

from penstock.lineage.extract.writes import of_sql
from penstock.lineage.facts import WriteKind


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ALTER TABLE a RENAME TO b", WriteKind.RENAME),
        ("ALTER EXTERNAL TABLE a\nADD COLUMN b int", WriteKind.ALTER),
        ("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1", WriteKind.CREATE),
        ("DROP TABLE IF EXISTS a", WriteKind.DROP),
        ("/* a note */ INSERT INTO a SELECT 1", WriteKind.APPEND),
        ("/* a note without an end INSERT INTO a", 0),
        ("CREATE DATABASE d", 0),
    ],
)
def test_the_kind_of_a_write_is_in_its_statement(query: str, expected: int) -> None:
    assert expected == of_sql(query)


@pytest.mark.parametrize(
    "query",
    ["ALTER " + "TABLE " * 16_000, "ALTER TABLE " + "RENAME " * 14_000, "/*" * 50_000, "WITH " + ") " * 49_000],
    ids=["tables", "renames", "comments", "brackets"],
)
def test_a_text_made_to_be_searched_again_and_again_is_searched_once(query: str) -> None:
    began = time.process_time()
    of_sql(query)

    assert time.process_time() - began < 2
