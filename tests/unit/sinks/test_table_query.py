"""SQL over landed tables, and the forms that rows come in."""

import contextlib
import csv
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner, Result

from penstock.cli import app


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    first = pa.table({"id": [1, 2], "name": ["a,b", "c"], "tags": [["x"], ["y", "z"]]})
    write_deltalake(tmp_path / "tables" / "orders", first)
    write_deltalake(tmp_path / "tables" / "orders", first.slice(1).set_column(0, "id", [[3]]), mode="append")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["table", *arguments])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("table", ["orders", '"tables/orders"'])
def test_a_table_is_named_by_its_folder_with_or_without_the_one_above(table: str) -> None:
    said = ask("query", f"SELECT count(*) AS n, max(id) AS most FROM {table}", "--json")  # noqa: S608 - it can only read

    assert [{"n": 3, "most": 3}] == [json.loads(line) for line in said.stdout.splitlines()]


@pytest.mark.usefixtures("folder")
def test_a_name_that_the_query_makes_is_no_table() -> None:
    said = ask("query", "WITH few AS (SELECT id FROM orders WHERE id < 3) SELECT max(id) AS m FROM few", "--json")

    assert {"m": 2} == json.loads(said.stdout)


@pytest.mark.usefixtures("folder")
def test_two_selects_may_be_one_query() -> None:
    said = ask("query", "SELECT id FROM orders UNION SELECT 9 AS id", "--json")

    assert 0 == said.exit_code, said.stderr


@pytest.mark.parametrize(
    ("sql", "exit_code", "reason"),
    [
        ("SELECT * FROM ordrs", 3, "'ordrs' here. Did you mean tables/orders? A path goes in double quotes"),
        ("SELECT * FROM nothing", 3, "'nothing' here. There are tables/orders. A path goes in double quotes"),
        ("DROP TABLE orders", 2, "one SELECT belongs here"),
        ("COPY orders TO 'out.csv'", 2, "one SELECT belongs here"),
        ("SELECT 1; SELECT 2", 2, "one SELECT belongs here"),
        ("SELEC", 2, "one SELECT belongs here: tables are read, and nothing is changed; this begins with 'SELEC'"),
        ("SELEC * FROM orders", 2, "nothing is changed; this begins with 'SELEC'"),
        ("", 2, "one SELECT belongs here"),
        ("SELECT * FROM read_csv('/etc/passwd')", 2, "not from functions"),
        ("SELECT * FROM '/etc/passwd'", 3, "there is no table '/etc/passwd' here"),
        ("SELECT nope FROM orders", 2, "the query fails: No field named nope"),
        ('SELECT id FROM orders WHERE name = "c"', 2, "orders.tags. Text goes in single quotes: 'c'"),
        ("SELECT id FROM orders WHERE name = c", 2, "orders.tags. Text goes in single quotes: 'c'"),
        (
            "SELECT name, sum(id) FROM orders",
            2,
            "fails: 'name' is neither in GROUP BY nor in an aggregate. Add GROUP BY",
        ),
        ("SELECT id FROM orders HAVING id > 1", 2, "fails: 'id' is neither in GROUP BY nor in an aggregate"),
        (
            "SELECT sum(name) AS s FROM orders",
            2,
            "fails: sum takes no text. Cast the value, as in CAST(name AS double)\n",
        ),
        ("SELECT cast(name AS int) AS i FROM orders", 2, "' to value of int type\n"),
        ("SELECT id / 0 AS i FROM orders", 2, "fails: Divide by zero error"),
        ("SELECT substring(name) AS s FROM orders", 2, "fails: Substring without for/from is not valid\n"),
        ("SELECT id FROM orders WHERE", 2, "this is not SQL: it is incomplete"),
        ("SELECT * FORM orders", 2, "no place for 'orders'. Did you mean FROM by 'FORM'?"),
        ("SELECT id\nFROM orders ORDR BY id", 2, "no place for 'BY' in line 2. Did you mean ORDER by 'ORDR'?"),
        ("SELECT (id FROM orders", 2, "this is not SQL: a bracket is not closed before 'FROM'"),
        ("SELECT id FROM orders WHERE name = 'c", 2, "this is not SQL: a quote (') is not closed"),
        ("SELECT id /* FROM orders", 2, "this is not SQL: a comment is not closed"),
        ("SELECT * FROM orders a JOIN orders b ON a.id = b.id", 2, "two columns are called 'id'"),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, 2, "this is not SQL"),
        ("SELECT * FROM tables/orders", 2, 'a path goes in double quotes, as in FROM "tables/orders"'),
    ],
)
def test_what_cannot_be_asked_is_told_in_one_line(folder: Path, sql: str, exit_code: int, reason: str) -> None:
    said = ask("query", sql)

    assert exit_code == said.exit_code
    assert reason in said.stderr
    assert 1 == len(said.stderr.splitlines())
    assert [folder / "tables"] == list(folder.iterdir())


def test_tables_here_are_listed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    write_deltalake(folder / "other", pa.table({"id": [7]}))

    listed = json.loads(ask("list", "--json").stdout)

    assert [("other", 0), ("tables/orders", 1)] == [(each["table"], each["version"]) for each in listed]
    with contextlib.chdir(tmp_path_factory.mktemp("empty")):
        assert "no tables here" in ask("list").stderr


def test_a_table_whose_log_is_damaged_is_one_line_and_hides_no_other(folder: Path) -> None:
    shutil.copytree(folder / "tables" / "orders", folder / "tables" / "odd")
    (folder / "tables" / "odd" / "_delta_log" / f"{0:020d}.json").unlink()
    (folder / "tables" / "none" / "_delta_log").mkdir(parents=True)

    listed = json.loads(ask("list", "--json").stdout)
    said = [ask(*each) for each in (("show", "tables/odd"), ("vacuum", "tables/odd"), ("query", "SELECT * FROM odd"))]
    none = ask("show", "tables/none")

    assert [("tables/odd", None), ("tables/orders", 1)] == [(each["table"], each["version"]) for each in listed]
    assert [6, 6, 6, 3] == [each.exit_code for each in (*said, none)]
    assert all("tables/odd cannot be read: " in each.stderr for each in said)
    assert all("{" not in each.stderr and 1 == len(each.stderr.splitlines()) for each in said)


@pytest.mark.parametrize("name", ["Orders", "orders.2026", "select"])
def test_a_folder_may_have_any_name(folder: Path, name: str) -> None:
    write_deltalake(folder / name, pa.table({"id": [7]}))

    said = ask("query", f'SELECT max("{name}".id) AS m FROM "{name}"', "--json")  # noqa: S608 - it can only read

    assert {"m": 7} == json.loads(said.stdout), said.stderr


def test_rows_are_counted_also_where_files_have_no_statistics(folder: Path) -> None:
    (log,) = (folder / "tables" / "orders" / "_delta_log").glob("*1.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    log.write_text("\n".join(map(json.dumps, lines)) + "\n")

    assert 3 == json.loads(ask("show", "tables/orders", "--json").stdout)["rows"]


def test_a_version_whose_files_were_deleted_is_told_in_one_line(folder: Path) -> None:
    table = DeltaTable(str(folder / "tables" / "orders"))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)

    said = ask("show", "tables/orders", "--as-of", "1")

    assert (3, ["error: files of this version are gone, as a vacuum leaves it. Ask for a newer one"]) == (
        said.exit_code,
        said.stderr.splitlines(),
    )


@pytest.mark.usefixtures("folder")
def test_a_condition_cannot_take_the_limit_away() -> None:
    said = ask("show", "tables/orders", "--where", "id > 0 -- ", "--limit", "1", "--json")
    more = ask("show", "tables/orders", "--where", "1 = 1) UNION (SELECT 1", "--json")

    assert 1 == len(json.loads(said.stdout)["some"])
    assert 2 == more.exit_code


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("true UNION SELECT 1", "error: 'true UNION SELECT 1' is not a condition"),
        ("id / 0 = 1", "error: the query fails: Divide by zero"),
        ("CAST(name AS int) = 1", "' to value of int type"),
        ("row_number() OVER () = 1", "error: the query fails: a window function has no place in a condition"),
        ("id IN (SELECT id FROM other)", "error: the query fails: table 'other' not found"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_is_no_condition_is_explained_in_one_line(where: str, reason: str) -> None:
    said = ask("show", "tables/orders", "--where", where)

    assert 2 == said.exit_code
    assert said.stderr.endswith(f"{reason}\n")
    assert 1 == len(said.stderr.splitlines())


@pytest.mark.usefixtures("folder")
def test_rows_are_chosen_by_condition_columns_and_version() -> None:
    chosen = ask("show", "tables/orders", "--where", "id > 1", "--columns", "id", "--limit", "5", "--json")
    before = ask("show", "tables/orders", "--as-of", "0", "--json")
    none, none_ever = (ask("show", "tables/orders", "--as-of", each) for each in ("9", "9" * 30))
    never = ask("show", "tables/orders", "--as-of", "2001-01-01")

    assert [{"id": 2}, {"id": 3}] == sorted(json.loads(chosen.stdout)["some"], key=lambda row: row["id"])
    assert (2, 0) == (json.loads(before.stdout)["rows"], json.loads(before.stdout)["version"])
    assert (3, 3, 3) == (none.exit_code, none_ever.exit_code, never.exit_code)
    assert "has no version 9; the newest is 1" in none.stderr
    assert "9; the newest is 1" in none_ever.stderr
    assert "was not there at 2001-01-01" in never.stderr


def test_rows_come_as_csv_json_lines_and_parquet(folder: Path) -> None:
    sql = "SELECT * FROM orders ORDER BY id LIMIT 2"
    as_csv, lines = ask("query", sql, "--format", "csv"), ask("query", sql, "--format", "jsonl")
    ask("query", sql, "--format", "parquet", "--output", "out.parquet")
    again = ask("query", sql, "--format", "parquet", "--output", "out.parquet")
    nowhere = ask("query", sql, "--format", "parquet")
    no_folder = ask("query", sql, "--output", "some where/out.csv")

    rows = [{"id": 1, "name": "a,b", "tags": ["x"]}, {"id": 2, "name": "c", "tags": ["y", "z"]}]
    assert [["id", "name", "tags"], ["1", "a,b", '["x"]'], ["2", "c", '["y","z"]']] == list(
        csv.reader(as_csv.stdout.splitlines())
    )
    assert rows == [json.loads(line) for line in lines.stdout.splitlines()]
    assert rows == pq.read_table(folder / "out.parquet").to_pylist()
    assert "out.parquet already exists" in again.stderr
    assert "name a file with --output" in nowhere.stderr
    assert (3, "error: there is no folder some where. Make it with: mkdir -p 'some where'\n") == (
        no_folder.exit_code,
        no_folder.stderr,
    )
