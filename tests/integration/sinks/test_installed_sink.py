"""A sink of another package, in one file: installed for the test, found by its entry point, and exactly once."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from penstock.kafka.producer import Producer

from conftest import RunningKafka
from support.drivers import end_leftovers, start_driver

EXAMPLE = Path(__file__).parents[3] / "examples" / "sqlite_sink"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Build and install the example as a user would, beside what is installed already."""
    folder = tmp_path / "packages"
    uv = Path(sys.executable).parent / "uv"
    options = ["--offline", "--no-cache", "--no-deps", "--no-build-isolation", "--quiet"]
    subprocess.run([uv, "pip", "install", *options, "--target", folder, EXAMPLE], check=True, timeout=480)
    return folder


def test_events_land_exactly_once_in_a_sink_of_an_installed_package_though_a_driver_is_killed(
    kafka: RunningKafka, packages: Path, tmp_path: Path
) -> None:
    topic = kafka.topic("installed", partitions=2)
    with Producer(kafka.connection) as producer:
        for number in range(100):
            producer.send(topic, f'{{"id": {number}, "tags": ["a", "b"]}}', partition=number % 2)
        producer.send(topic, "no JSON", partition=0)
    file = tmp_path / "pipeline.yaml"
    document = {
        "name": topic,
        "source": {"type": "kafka", "topics": [topic]},
        "decode": {"type": "json", "schema": "id bigint, tags array<string>"},
        "steps": [{"sql": "SELECT id, id * 2 AS twice, tags FROM events"}],
        "sinks": [{"type": "sqlite", "path": "landed/events.db", "table": "events", "where": "id < 90"}],
        "batch": {"max_events": 40},
        "speed": "scheduled",
    }
    file.write_text(yaml.safe_dump(document))

    codes = []
    try:
        for point in ("in_commit:sqlite", ""):
            environment = {"PYTHONPATH": str(packages), "PENSTOCK_CRASH_AT": point or "nowhere"}
            log = tmp_path / "driver.log"
            codes.append(start_driver(kafka.home, file, log, "--master", "local[1,4]", **environment).wait())
    finally:
        end_leftovers()

    with closing(sqlite3.connect(tmp_path / "landed" / "events.db")) as connection:
        rows = connection.execute("SELECT id, twice, tags, _partition FROM events ORDER BY id").fetchall()
        positions = connection.execute("SELECT partition, position FROM penstock_positions ORDER BY 1").fetchall()
    assert [-9, 0] == codes, log.read_text()
    assert [(number, number * 2, '["a","b"]', number % 2) for number in range(90)] == rows
    assert [(0, 51), (1, 50)] == positions
