"""Tables that the Iceberg sink refuses before it writes anything."""

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import Conflict
from penstock.sinks.iceberg_catalog import Catalog, make_catalog, open_catalog

from support.iceberg_driver import SCHEMA, A, Driver, loaded
from support.iceberg_tables import iceberg_rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tables" / "orders"


def test_a_type_that_iceberg_lacks_is_refused(path: Path) -> None:
    with pytest.raises(Conflict, match="an Iceberg table cannot hold the column 'took' of type duration"):
        Driver(path, pa.schema([("took", pa.duration("us"))]))
    assert not (path / "metadata").exists()


def test_a_table_of_the_other_format_in_its_place_is_refused(path: Path) -> None:
    (path / "_delta_log").mkdir(parents=True)

    with pytest.raises(Conflict, match=r"holds a Delta table. Nothing was written. Write to another path, or say"):
        Driver(path)


def test_a_table_that_another_catalog_has_is_refused(path: Path) -> None:
    Driver(path).write(1)

    with pytest.raises(Conflict, match=r"holds an Iceberg table that the catalog .*other.db does not name"):
        Driver(path, catalog=Catalog(path=path.parent / "other.db"))


def test_a_table_whose_newest_metadata_alone_are_gone_is_not_recreated(path: Path) -> None:
    driver = Driver(path)
    driver.write(1)
    driver.write(2)
    driver.sink.close()
    newest = Path(loaded(path).metadata_location.removeprefix("file://"))
    aside = newest.rename(path / "aside.json")

    with pytest.raises(Conflict, match="newest metadata of the Iceberg table"):
        Driver(path)

    aside.rename(newest)
    assert ({A: 2}, [1, 2]) == (Driver(path).positions, sorted(row["id"] for row in iceberg_rows(path)))


def test_a_name_that_stands_for_another_folder_is_refused(path: Path) -> None:
    Driver(path).write(1)

    with pytest.raises(Conflict, match=r"has default.orders at file://.*/orders, not at .*/elsewhere"):
        Driver(path.parent / "elsewhere", table="default.orders")


def test_a_column_without_nulls_is_refused(path: Path) -> None:
    path.parent.mkdir()
    catalog = open_catalog(Catalog(), path)
    make_catalog(catalog)
    catalog.create_namespace("default")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string())])
    catalog.create_table("default.orders", schema, location=f"file://{path}")

    with pytest.raises(Conflict, match="takes no nulls in the column 'id', and the pipeline may make some"):
        Driver(path)


def test_a_check_of_what_is_there_makes_nothing(path: Path) -> None:
    before = Driver.unopened(path)
    before.reach()
    found = before.require_fitting(lambda: SCHEMA)
    before.close()

    assert (None, False) == (found, path.parent.exists())
    Driver(path).write(1)
    after = Driver.unopened(path)
    after.reach()
    change = after.require_fitting(lambda: pa.schema([*SCHEMA, ("added", pa.int64())]))
    assert "the column added int64 will be added" == str(change)
    with pytest.raises(Conflict, match="has the column id int64"):
        after.require_fitting(lambda: pa.schema([("id", pa.string()), ("text", pa.string())]))
