"""`penstock table` over Iceberg tables."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.errors import BadInput, NotFound
from penstock.sinks.table_query import count_rows, query, rows_of
from penstock.sinks.tables import compact, history, landed, open_table, restore, vacuum

from support.iceberg_driver import A, Driver, loaded
from support.iceberg_tables import iceberg_rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tables" / "orders"


def test_rows_are_shown_by_condition_columns_and_snapshot(path: Path) -> None:
    driver = Driver(path, table="shop.orders")
    driver.write(1, 2, 3)
    driver.write(4)
    newest, first = history(path, 10)

    assert ["APPEND", "APPEND"] == [newest.operation, first.operation]
    table = open_table(path)
    assert (newest.version, 4) == (table.version(), count_rows(table))
    some = rows_of(table, columns=["id"], where="id * 2 > 4", limit=10)
    assert {"id": [3, 4]} == some.sort_by("id").to_pydict()
    older = open_table(path, str(first.version))
    assert (3, 2) == (count_rows(older), rows_of(older, columns=[], where="", limit=2).num_rows)
    assert 0 == count_rows(open_table(path, "2999-01-01")) - 4


def test_a_table_is_restored_and_its_pipeline_goes_on_from_there(path: Path) -> None:
    driver = Driver(path)
    driver.write(1)
    snapshot = loaded(path).metadata.current_snapshot_id
    driver.write(2)
    done = restore(path, str(snapshot))
    found = driver.positions
    driver.write(2)

    assert (snapshot, {A: 1}) == (done.version, found)
    assert [1, 2] == sorted(row["id"] for row in iceberg_rows(path))


def test_a_table_that_its_pipeline_has_written_to_meanwhile_is_restored(path: Path) -> None:
    driver = Driver(path)
    driver.write(1)
    snapshot = open_table(path)
    driver.write(2)
    opened = open_table(path, str(snapshot.version()))
    driver.write(3)
    opened.restore()
    found = driver.positions
    driver.write(2, 3)

    assert {A: 1} == found
    assert [1, 2, 3] == sorted(row["id"] for row in iceberg_rows(path))


def test_what_cannot_be_done_is_told_in_one_line(path: Path) -> None:
    Driver(path).write(1)

    with pytest.raises(NotFound, match="has no snapshot of 7, or not any more"):
        open_table(path, "7")
    for where, said in [
        ("id >", r"^this is not SQL: it is incomplete$"),
        ("no such condition", r"^this is not SQL: [^\n]{1,80}$"),
        ("idd > 1", r"^the query fails: No field named idd. Did you mean 'id'\? Valid fields are id, "),
    ]:
        with pytest.raises(BadInput, match=said):
            rows_of(open_table(path), columns=[], where=where, limit=1)
    with pytest.raises(BadInput, match=r"^the query fails: No field named none\. Valid fields are id, "):
        rows_of(open_table(path), columns=["none"], where="", limit=1)
    (path.parent / "iceberg.db").unlink()
    for ask in (open_table, lambda path: compact(path, "7d"), lambda path: vacuum(path, "7d", dry_run=False)):
        with pytest.raises(BadInput, match=r"that the catalog \S+/iceberg.db does not name"):
            ask(path)
    assert [("orders", "iceberg", None)] == [(each.table, each.format, each.version) for each in landed(path.parent)]


def test_tables_of_both_formats_are_listed_with_their_newest_version(path: Path) -> None:
    Driver(path).write(1)
    DeltaTable.create(str(path.parent / "payments"), pa.schema([("id", pa.int64())]))

    found = [(each.table, each.format, each.version) for each in landed(path.parent.parent)]

    assert [("tables/orders", "iceberg", history(path, 1)[0].version), ("tables/payments", "delta", 0)] == found


def test_sql_joins_tables_of_both_formats_and_sees_columns_that_came_later(path: Path) -> None:
    Driver(path).write(1, 2)
    first = history(path, 1)[0].version
    with_amount = pa.schema([("id", pa.int64()), ("text", pa.string()), ("amount", pa.float64())])
    Driver(path, with_amount).write_rows([{"id": 3, "text": "c", "amount": 1.5}])
    loaded(path).delete("id = 2")
    write_deltalake(str(path.parent / "names"), pa.table({"id": [1, 3], "name": ["ann", "bob"]}))

    joined = query("SELECT name, amount FROM orders JOIN names USING (id) ORDER BY name", path.parent.parent)
    older = query("SELECT * FROM orders ORDER BY id", path.parent.parent, str(first))

    assert [{"name": "ann", "amount": None}, {"name": "bob", "amount": 1.5}] == joined.to_pylist()
    assert {"id": [1, 2], "text": ["text 1", "text 2"]} == older.to_pydict()
