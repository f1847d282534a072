"""Which previews launch Spark's JVM before they know whether they need it."""

from pathlib import Path

import pytest

from penstock.cli.pipeline.early_spark import EarlySpark
from penstock.driver import brief_spark, session

SQL = "name: a\nsteps:\n  - sql: SELECT * FROM events\n"


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note what is done with JVMs, instead of starting any."""
    noted: list[str] = []
    monkeypatch.setattr(brief_spark, "launch_jvm", lambda: noted.append("launched"))
    monkeypatch.setattr(session, "end_launched", lambda: noted.append("ended"))
    return noted


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.yaml", SQL, ["launched"]),
        ("a.yml", "expect: [{that: id > 1}]", ["launched"]),
        ("a.yaml", "sinks: [{type: console, where: id > 1}]", ["launched"]),
        ("a.yaml", "steps: [{python: steps.double}]", []),
        ("a.yaml", f"{SQL}spark: {{spark.driver.memory: 2g}}", []),  # the JVM has to be launched with that
        ("a.py", "sql: SELECT", []),
    ],
)
def test_a_file_with_sql_is_taken_to_need_spark(
    tmp_path: Path, done: list[str], name: str, text: str, expected: list[str]
) -> None:
    file = tmp_path / name
    file.write_text(text)

    EarlySpark(file, tmp_path / "analysis.json").launch()

    assert expected == done


def test_a_guess_that_was_wrong_is_not_made_again_for_the_same_text(tmp_path: Path, done: list[str]) -> None:
    file, analysis = tmp_path / "a.yaml", tmp_path / "analysis.json"
    file.write_text(SQL)
    for text in (SQL, SQL, f"{SQL}# changed\n"):
        file.write_text(text)
        early = EarlySpark(file, analysis)
        early.launch()
        early.settle({}, is_needed=False)

    assert ["launched", "ended", "launched", "ended"] == done


@pytest.mark.parametrize("there", [True, False])
def test_neither_a_missing_java_nor_a_missing_file_is_told_by_the_guess(tmp_path: Path, *, there: bool) -> None:
    file = tmp_path / "a.yaml"
    if there:
        file.write_text(SQL)

    EarlySpark(file, None).launch()
