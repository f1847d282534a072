from pathlib import Path

import pytest

from penstock.pipeline.load import load_with_warnings


def test_a_mistyped_column_that_is_only_passed_on_is_a_warning_and_no_name_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "name: p\nsource: {topics: [a]}\ndecode: {type: json, schema: order bigint}\n"
        "steps:\n  - sql: SELECT ordr FROM events\nsinks: [{type: delta, path: t}]\n"
    )

    _, warnings = load_with_warnings(file)

    assert [f"{file}:5:5: steps.0.sql: there is no column 'ordr'. Did you mean 'order'? There are order"] == warnings


def test_sql_that_cannot_be_read_is_a_warning_because_spark_may_know_more(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "name: p\nsource: {topics: [a]}\ndecode: {type: json, schema: amount bigint}\n"
        "expect:\n  - {name: positive, that: amount >}\nsinks: [{type: delta, path: t}]\n"
    )

    _, warnings = load_with_warnings(file)

    said = "'amount >' does not look like complete SQL; Spark decides when the pipeline starts"
    assert [f"{file}:5:22: expect.0.that: {said}"] == warnings


@pytest.mark.parametrize(("host", "count"), [("db.example", 1), ("127.0.0.1", 0)])
def test_rows_that_go_to_whoever_answers_are_warned_of(tmp_path: Path, host: str, count: int) -> None:
    file = tmp_path / "p.yaml"
    server = f"{{host: {host}, database: app, user: app, sslmode: require}}"
    file.write_text(
        "name: p\nsource: {topics: [a]}\ndecode: {type: json, schema: order bigint}\n"
        f"sinks:\n  - type: postgres\n    table: t\n    server: {server}\n"
    )

    _, warnings = load_with_warnings(file)

    assert [True] * count == ["any server could get the rows" in each for each in warnings]
