"""A source and a decoder of another package, through a whole pipeline: exactly once, though a driver is killed."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable

from penstock.delivery import dead_letter

from conftest import RunningKafka
from support.drivers import end_leftovers, start_driver
from support.packages import install_example


@pytest.mark.soak
def test_events_of_an_installed_source_and_decoder_land_exactly_once_though_a_driver_is_killed(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    install_example(tmp_path / "packages", "sqlite_outbox", "penstock_outbox")
    name = kafka.topic("outbox")
    with closing(sqlite3.connect(tmp_path / "outbox.db")) as connection, connection:
        connection.execute("CREATE TABLE outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT)")
        lines = [f"{number},n{number}" if number != 7 else "poison" for number in range(1, 51)]
        connection.executemany("INSERT INTO outbox (value) VALUES (?)", [(line,) for line in lines])
    file = tmp_path / "pipeline.yaml"
    document = {
        "name": name,
        "source": {"type": "sqlite_outbox", "path": "outbox.db"},
        "decode": {"type": "csv", "columns": ["id", "name"]},
        "steps": [{"sql": "SELECT CAST(id AS bigint) AS id, name FROM events"}],
        "sinks": [{"type": "delta", "path": "table"}],
        "batch": {"max_events": 20},
        "speed": "scheduled",
    }
    file.write_text(yaml.safe_dump(document))

    codes = []
    try:
        for point in ("in_commit:delta", "nowhere"):
            environment = {"PYTHONPATH": str(tmp_path / "packages"), "PENSTOCK_CRASH_AT": point}
            log = tmp_path / "driver.log"
            codes.append(start_driver(kafka.home, file, log, "--master", "local[1,4]", **environment).wait())
    finally:
        end_leftovers()

    assert [-9, 0] == codes, log.read_text()
    rows = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    expected = [(number, f"n{number}", number) for number in range(1, 51) if number != 7]
    assert expected == sorted((row["id"], row["name"], row["_offset"]) for row in rows)
    letters = dead_letter.read(kafka.connection, f"{name}.dead")
    assert [(7, "SchemaMismatch")] == [(each.offset, each.error) for each in letters]
