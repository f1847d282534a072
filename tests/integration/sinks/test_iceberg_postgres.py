"""An Iceberg table whose catalog is in PostgreSQL."""

from contextlib import closing
from pathlib import Path

import pytest

from penstock.errors import Refused
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.secret import Secret
from penstock.sinks.iceberg_catalog import Catalog, open_catalog

from support.iceberg_driver import SCHEMA, A, B, Driver
from support.iceberg_tables import reader


def test_a_table_whose_catalog_is_in_postgresql_is_written_to_exactly_once(
    postgres: RunningPostgres, tmp_path: Path
) -> None:
    server = postgres.database()
    url = f"postgresql://{server.user}@{server.host}:{server.port}/{server.database}"
    catalog = Catalog(url=url, password=Secret.parse(f"file:{postgres.password_file}"))
    path = tmp_path / "orders"
    with closing(Driver.unopened(path, catalog=catalog)) as asked:
        found_before = asked.require_fitting(lambda: SCHEMA)
    older, newer = Driver(path, catalog=catalog), Driver(path, catalog=catalog)
    with closing(older.sink), closing(newer.sink):
        older.write(1, 2)
        newer.write(3, partition=B)
        older.write(4)
        found = older.positions, newer.positions
    with closing(open_catalog(catalog, path)) as opened:
        metadata = opened.load_table("default.orders").metadata_location
    rows = reader().cursor().execute("SELECT id FROM iceberg_scan(?) ORDER BY id", [metadata]).fetchall()

    assert found_before is None
    assert ({A: 3, B: 1},) * 2 == found
    assert [(1,), (2,), (3,), (4,)] == rows
    with pytest.raises(Refused, match="does not let this user in") as caught:
        Driver(path, catalog=Catalog(url=url, password=Secret.of("canary-5f1e")))
    assert "canary-5f1e" not in str(caught.value)
