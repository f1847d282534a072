from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import SinkUnavailable
from penstock.lineage.store.address import StoreAddress, default_path
from penstock.lineage.store.database import connect_sqlite
from penstock.lineage.store.landing import LineageSink

from conftest import Cli
from support.lineage_store import remove


def test_the_store_of_the_home_folder_is_made_cleaned_and_refused_if_it_is_newer(cli: Cli, tmp_path: Path) -> None:
    made = cli("lineage", "migrate", home=tmp_path)
    cleaned = cli("lineage", "clean", "--keep", "90d", "--dry-run", "--json", home=tmp_path)
    connection = connect_sqlite(default_path(tmp_path))
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    refused = cli("lineage", "clean", "--keep", "90d", home=tmp_path)

    assert (0, {0}) == (made.code, {each["rows"] for each in cleaned.json["tables"]})
    assert (True, 1) == ("which a newer Penstock made" in refused.err, len(refused.error_lines))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--keep", "soon"), "is not a duration"),
        (("--keep", "0d"), "such as 90d"),
        (("--keep", "9d", "--store", "postgresql://me:hunter2@db/lineage"), "a password is not written here"),
    ],
)
def test_what_clean_cannot_do_costs_one_line(cli: Cli, tmp_path: Path, options: tuple[str, ...], reason: str) -> None:
    said = cli("lineage", "clean", *options, home=tmp_path)

    assert (True, 1, False) == (reason in said.err, len(said.error_lines), "hunter2" in said.err)


def test_a_store_that_was_recreated_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "lineage.db"
    schema = pa.schema([("event", pa.string())])
    found = []
    for _ in range(3):
        sink = LineageSink(StoreAddress(store=str(path)), "lineage", "lineage", tmp_path / "aside")
        sink.open(schema)
        found.append(sink.target_id())
        sink.close()
        if len(found) == 2:
            remove(path)

    assert found[0] == found[1] != found[2]


def test_a_file_that_was_removed_takes_no_more_rows(tmp_path: Path) -> None:
    path = tmp_path / "lineage.db"
    sink = LineageSink(StoreAddress(store=str(path)), "lineage", "lineage", tmp_path / "aside")
    sink.open(pa.schema([("event", pa.string())]))
    before = sink.positions([])
    remove(path)
    with pytest.raises(SinkUnavailable, match="unable to open database file"):
        sink.commit()
    sink.close()

    assert ({}, False) == (before, path.exists())
