"""Iceberg tables and catalogs that others wrote: they run no code here, and delete nothing of ours."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from penstock.errors import BadInput, Conflict
from penstock.sinks import tables
from penstock.sinks.iceberg import Iceberg
from penstock.sinks.iceberg_table import IcebergTable
from penstock.sinks.iceberg_view import IcebergView
from penstock.sinks.table_query import query, rows_of
from penstock.sinks.tables import open_table

from support.iceberg_driver import SCHEMA, A, Driver, loaded
from support.iceberg_tables import iceberg_rows

Changed = Callable[[Callable[[dict[str, Any]], None]], Path]


@pytest.fixture
def changed(tmp_path: Path) -> Changed:
    """A table with two snapshots, whose newest metadata somebody changes by hand."""
    catalog = SqlCatalog("penstock", uri=f"sqlite:///{tmp_path}/iceberg.db")
    catalog.create_namespace("default")
    kept = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    folder = tmp_path / "t"
    schema = pa.schema([("a", pa.int64())])
    table = catalog.create_table("default.t", schema, location=f"file://{folder}", properties=kept)
    for value in (1, 2):
        table.append(pa.table({"a": [value]}))
    file = Path(catalog.load_table("default.t").metadata_location.removeprefix("file://"))

    def change(how: Callable[[dict[str, Any]], None]) -> Path:
        metadata = json.loads(file.read_text())
        how(metadata)
        file.write_text(json.dumps(metadata))
        return folder

    return change


def test_a_table_does_not_say_which_code_reads_its_files(changed: Changed, tmp_path: Path) -> None:
    (victim := tmp_path / "victim").mkdir()
    (victim / "thesis.txt").write_text("mine")
    called = {"py-io-impl": "venv.main", str(victim): "", "--clear": "", "--without-pip": ""}

    found = IcebergView(changed(lambda metadata: metadata["properties"].update(called)))

    assert 2 == found.count()
    assert (victim / "thesis.txt").exists()


def test_a_table_that_names_code_for_its_locations_is_refused(changed: Changed) -> None:
    folder = changed(
        lambda metadata: metadata["properties"].update({"write.py-location-provider.impl": "runpy.run_path"})
    )

    table = IcebergTable(Iceberg(path=folder, coordinates=False), "p")
    with pytest.raises(Conflict, match=r"default\.t names code of its own in write\.py-location-provider\.impl"):
        table.require_fitting(lambda: pa.schema([("a", pa.int64())]))
    table.close()


def test_a_table_whose_old_metadata_are_said_to_be_elsewhere_deletes_nothing_there(
    changed: Changed, tmp_path: Path
) -> None:
    (victim := tmp_path / "victim.txt").write_text("mine")
    log = [{"metadata-file": f"file://{victim}", "timestamp-ms": 1}]
    folder = changed(lambda metadata: metadata.update({"metadata-log": log}))
    first = IcebergView(folder).history(10)[-1]["version"]

    with pytest.warns(UserWarning, match=f"name file://{victim}, which is elsewhere"):
        tables.restore(folder, str(first))
    assert "mine" == victim.read_text()


def test_a_rest_catalog_does_not_say_which_code_runs(tmp_path: Path) -> None:
    (victim := tmp_path / "victim").mkdir()
    (victim / "thesis.txt").write_text("mine")
    config = {
        "defaults": {str(victim): "", "--clear": "", "--without-pip": ""},
        "overrides": {"py-io-impl": "venv.main", "uri": "http://127.0.0.1:1", "auth": {"type": "custom"}},
    }

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            said = config if self.path.startswith("/v1/config") else _answer(tmp_path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        table = IcebergTable(Iceberg(path=tmp_path / "t", catalog={"url": url}), "p")
        table.reach()
        assert table.find() is not None
        table.close()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert (victim / "thesis.txt").exists()


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "started again"])
@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[]"], ids=["empty", "cut off", "no text", "others"])
def test_metadata_that_somebody_has_overwritten_are_one_line_and_nothing_is_lost(
    tmp_path: Path, text: bytes, *, is_running: bool
) -> None:
    path = tmp_path / "table"
    driver = Driver(path)
    driver.write(1, 2)
    metadata = Path(loaded(path).metadata_location.removeprefix("file://"))
    kept = metadata.read_bytes()
    metadata.write_bytes(text)

    with pytest.raises(
        Conflict, match=r"metadata of the table .* cannot be understood\. Nothing was written\. Put back"
    ):
        (driver if is_running else Driver(path)).write(3)
    metadata.write_bytes(kept)
    driver.write(3)

    assert [1, 2, 3] == sorted(row["id"] for row in iceberg_rows(path))


@pytest.mark.parametrize("key", [[], ["id"]], ids=["appended", "merged"])
def test_a_list_of_files_that_somebody_has_deleted_is_named_and_nothing_is_lost(tmp_path: Path, key: list[str]) -> None:
    path = tmp_path / "table"
    schema = pa.schema([*SCHEMA, ("_topic_id", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())])
    driver = Driver(path, schema, key=key)

    def write(number: int) -> None:
        row = {"id": number, "text": "x", "_topic_id": A.topic_id, "_partition": 0, "_offset": number}
        driver.write_rows([row])

    write(0)
    lists = {each: each.read_bytes() for each in (path / "metadata").glob("*.avro")}
    for each in lists:
        each.unlink()
    with pytest.raises(Conflict, match=r"names .*\.avro, which is gone\. Nothing was written\. Put the file back"):
        write(1)
    for each, content in lists.items():
        each.write_bytes(content)
    write(1)

    assert [0, 1] == sorted(row["id"] for row in iceberg_rows(path))
    assert {A: 2} == driver.positions


def _answer(folder: Path) -> dict[str, Any]:
    metadata = {
        "format-version": 2,
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "location": f"file://{folder}/t",
        "last-sequence-number": 0,
        "last-updated-ms": 1,
        "last-column-id": 1,
        "current-schema-id": 0,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
    }
    return {"metadata-location": f"file://{folder}/t/metadata/0.json", "metadata": metadata, "config": {}}


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda _: b"",
    "no sense": lambda _: b"x" * 5000,
    "cut off": lambda content: content[: len(content) // 2],
    "other bytes": lambda content: content[:-100] + b"\xff" * 100,
    "of another format": lambda _: b"PAR1" * 100,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
@pytest.mark.parametrize("files", ["metadata/snap-*.avro", "metadata/*-m0.avro", "data/*.parquet"])
def test_files_that_somebody_has_damaged_are_one_line_and_nothing_is_lost(
    tmp_path: Path, files: str, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "table"
    schema = pa.schema([*SCHEMA, ("_topic_id", pa.string()), ("_partition", pa.int32()), ("_offset", pa.int64())])
    driver = Driver(path, schema, key=["id"])

    def write(number: int) -> None:
        row = {"id": 1, "text": "x", "_topic_id": A.topic_id, "_partition": 0, "_offset": number}
        driver.write_rows([row])

    write(0)
    whole = {each: each.read_bytes() for each in path.glob(files)}
    for each, content in whole.items():
        each.write_bytes(damage(content))
    with pytest.raises(Conflict, match="has a damaged file or property"):
        rows_of(open_table(path), columns=[], where="", limit=10)
    with pytest.raises((Conflict, BadInput), match=r"damaged|the query fails"):
        query('SELECT * FROM "table"', tmp_path)
    with pytest.raises(Conflict, match=r"has a damaged file or property: .*\. Nothing was written\. Put the file back"):
        write(1)
    for each, content in whole.items():
        each.write_bytes(content)
    write(1)

    assert [1] == [row["_offset"] for row in iceberg_rows(path)]
    assert {A: 2} == driver.positions


def test_a_property_that_no_library_understands_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    path, name = tmp_path / "table", "write.metadata.metrics.default"
    driver = Driver(path)
    driver.write(1)
    with loaded(path).transaction() as transaction:
        transaction.set_properties({name: "nope"})

    with pytest.raises(Conflict, match=r"damaged file or property: Unsupported metrics mode: nope\. Nothing was"):
        driver.write(2)
    with loaded(path).transaction() as transaction:
        transaction.remove_properties(name)
    driver.write(2)

    assert [1, 2] == sorted(row["id"] for row in iceberg_rows(path))
