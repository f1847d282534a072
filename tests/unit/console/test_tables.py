"""The landed tables of a console, by its REST interface: Kafka may be away for it."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from penstock.driver.paths import PipelinePaths
from penstock.operate.belonging import write_file

from support.consoles import Asked, open_console

UNREACHABLE = "127.0.0.1:1"


@pytest.fixture
def ask(tmp_path: Path) -> Asked:
    folder = tmp_path / "elsewhere" / "orders"
    rows = {"id": [1, 2], "tags": [["a"], None], "_topic_id": ["T", "T"], "_partition": [0, 1], "_offset": [7, 8]}
    write_deltalake(folder, pa.table(rows))
    write_deltalake(folder, pa.table(rows), mode="append")
    write_deltalake(tmp_path / "tables" / "results", pa.table({"total": [3]}))
    file = tmp_path / "orders.yaml"
    file.write_text(
        "name: orders\nsource: {type: kafka, topics: [orders]}\ndecode: {type: text}\n"
        f"sinks: [{{type: delta, path: {folder}}}]\n"
    )
    paths = PipelinePaths.of(tmp_path / ".penstock", "orders")
    paths.folder.mkdir(parents=True)
    write_file(paths.folder, file)
    return open_console(tmp_path / ".penstock", UNREACHABLE)


def test_tables_are_listed_with_the_pipelines_that_write_them(ask: Asked) -> None:
    listed = ask("GET", "/tables").json()

    assert [("elsewhere/orders", "delta", ["orders"], "1"), ("tables/results", "delta", [], "0")] == [
        (each["table"], each["format"], each["pipelines"], each["version"]) for each in listed
    ]


def test_a_table_has_columns_sizes_versions_and_rows_with_the_record_of_each(ask: Asked) -> None:
    found = ask("GET", "/tables/detail", table="elsewhere/orders").json()
    rows = ask("GET", "/tables/rows", table="elsewhere/orders", count=1).json()
    before = ask("GET", "/tables/rows", table="elsewhere/orders", version=0).json()
    results = ask("GET", "/tables/rows", table="tables/results").json()

    assert (4, 2, "1", ["1", "0"]) == (
        found["rows"],
        found["files"],
        found["version"],
        [each["version"] for each in found["versions"]],
    )
    assert found["bytes"] > 0
    assert ("id", "int64") == (found["columns"][0]["name"], found["columns"][0]["type"])
    origin = {"topic_id": "T", "topic": None, "partition": 0, "offset": 7}
    assert [{"values": {"id": 1, "tags": ["a"]}, "origin": origin}] == rows
    assert 2 == len(before)
    assert [{"values": {"total": 3}, "origin": None}] == results


@pytest.mark.parametrize("name", ["..", "/etc", "tables/../elsewhere/orders", "nothing"])
def test_no_name_leads_to_a_folder_that_is_no_table_of_the_project(name: str, ask: Asked) -> None:
    assert [404, 404] == [ask("GET", f"/tables/{what}", table=name).status_code for what in ("detail", "rows")]
