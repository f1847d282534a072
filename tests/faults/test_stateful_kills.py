"""Drivers of a stateful pipeline, killed at every point; the results are those of a batch query over the table."""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake

from penstock.errors import CheckpointLost
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.sinks.postgres_server import Server

from support.drivers import Driver, start_driver
from support.iceberg_tables import iceberg_rows
from support.postgres_driver import ask
from support.waiting import until

KILLED = -9
COUNTS = "SELECT name, count(*) AS events, sum(id) AS total FROM events GROUP BY name"
POINTS = ["planned", "in_commit:delta", "in_commit:iceberg", "in_commit:postgres", "sink_committed:iceberg"]
Results = list[tuple[str, int, int]]


@dataclass
class Counting:
    """A landed table, and a pipeline that counts its rows into three sinks."""

    folder: Path
    postgres: RunningPostgres
    server: Server
    dice: random.Random
    put_rows: int = 0

    @classmethod
    def make(cls, folder: Path, postgres: RunningPostgres, seed: int) -> "Counting":
        made = cls(folder, postgres, postgres.database(), random.Random(seed))
        login = {
            **made.server.model_dump(mode="json", exclude_defaults=True),
            "password": f"file:{postgres.password_file}",
        }
        document = {
            "name": "counting",
            "source": {"type": "delta", "path": str(made.table), "max_files": 1},
            "steps": [{"sql": COUNTS}],
            "sinks": [
                {"type": "delta", "path": str(made.results), "key": ["name"]},
                {"type": "iceberg", "path": str(made.results_in_iceberg), "key": ["name"]},
                {"type": "postgres", "table": "results", "server": login, "mode": "upsert", "key": ["name"]},
            ],
            "speed": "scheduled",
            # Results do not pass through the driver's JVM, so that it may be small.
            "spark": {"spark.sql.shuffle.partitions": "1", "spark.driver.maxResultSize": "1m"},
        }
        made.file.write_text(yaml.safe_dump(document))
        return made

    @property
    def table(self) -> Path:
        return self.folder / "table"

    @property
    def results(self) -> Path:
        return self.folder / "results"

    @property
    def results_in_iceberg(self) -> Path:
        return self.folder / "iceberg" / "results"

    @property
    def file(self) -> Path:
        return self.folder / "counting.yaml"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def checkpoint(self) -> Path:
        return self.home / "pipelines" / "counting" / "checkpoint"

    def put(self, files: int) -> None:
        """Add files to the table, each a batch of its own."""
        for _ in range(files):
            self.put_file([f"n{self.dice.randrange(20)}" for _ in range(self.dice.randrange(1, 200))])

    def put_file(self, names: list[str]) -> None:
        ids = range(self.put_rows, self.put_rows + len(names))
        write_deltalake(str(self.table), pa.table({"name": names, "id": list(ids)}), mode="append")
        self.put_rows += len(names)

    def drive(self, **environment: str) -> Driver:
        return start_driver(self.home, self.file, self.folder / "driver.log", **environment)

    def finish(self) -> None:
        """Run until caught up, then compare all sinks with a batch query."""
        driver = self.drive()
        assert 0 == driver.wait(), driver.said
        rows = DeltaTable(str(self.table)).to_pyarrow_table()
        assert self.put_rows == rows.num_rows
        counted = rows.group_by("name").aggregate([("id", "count"), ("id", "sum")]).to_pylist()
        expected = sorted((row["name"], row["id_count"], row["id_sum"]) for row in counted)

        assert expected == self._in(DeltaTable(str(self.results)).to_pyarrow_table().to_pylist())
        assert expected == self._in(iceberg_rows(self.results_in_iceberg))
        assert expected == ask(self.server, "SELECT name, events, total::bigint FROM results ORDER BY name")

    @staticmethod
    def _in(rows: list[dict[str, Any]]) -> Results:
        return sorted((row["name"], row["events"], row["total"]) for row in rows)

    def rebuild(self, **environment: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "penstock", "--home", str(self.home), "pipeline", "rebuild", "counting"]
        with (self.folder / "rebuild.log").open("ab") as log:
            return subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, env={**os.environ, **environment})


@pytest.mark.parametrize(
    "points", [pytest.param(POINTS[2:4], id="commits"), pytest.param(POINTS, id="all", marks=pytest.mark.soak)]
)
def test_drivers_killed_in_a_batch_leave_what_a_batch_query_gives(
    postgres: RunningPostgres, tmp_path: Path, points: list[str]
) -> None:
    counting = Counting.make(tmp_path, postgres, seed=1)
    counting.put_file([f"{number:040}" for number in range(50_000)])
    for point in points:
        counting.put(2)
        driver = counting.drive(PENSTOCK_CRASH_AT=point, PENSTOCK_CRASH_AFTER="1")
        assert KILLED == driver.wait(), driver.said

    counting.finish()


def crash(counting: Counting) -> None:
    after = str(counting.dice.randrange(4))
    driver = counting.drive(PENSTOCK_CRASH_AT=counting.dice.choice(POINTS), PENSTOCK_CRASH_AFTER=after)
    assert driver.wait() in {KILLED, 0}, driver.said


def kill_while_it_runs(counting: Counting) -> None:
    driver = counting.drive()
    commits = counting.checkpoint / "spark" / "offsets"
    before = len(list(commits.glob("[0-9]*")))
    until(lambda: len(list(commits.glob("[0-9]*"))) > before or driver.process.poll() is not None, 120)
    time.sleep(counting.dice.uniform(0, 2))  # somewhere in a batch: nothing is waited for
    driver.kill()


def restore_an_old_copy(counting: Counting) -> None:
    counting.finish()
    shutil.copytree(counting.checkpoint, counting.folder / "copy")
    counting.put(counting.dice.randrange(1, 3))
    counting.finish()
    shutil.rmtree(counting.checkpoint)
    shutil.move(counting.folder / "copy", counting.checkpoint)
    refused_until_rebuilt(counting)


def delete_a_part(counting: Counting) -> None:
    counting.finish()
    part = counting.dice.choice(["spark", "spark/offsets", "spark/metadata", "spark/state", "metadata.json"])
    shutil.move(counting.checkpoint / part, counting.folder / f"part-{time.monotonic_ns()}")
    counting.put(1)
    refused_until_rebuilt(counting)


def crash_a_rebuild(counting: Counting) -> None:
    counting.finish()
    assert KILLED == counting.rebuild(PENSTOCK_CRASH_AT="checkpoint_cleared").wait()
    counting.put(1)
    refused_until_rebuilt(counting)
    assert KILLED == counting.rebuild(PENSTOCK_CRASH_AT="checkpoint_begun").wait()


def kill_a_rebuild(counting: Counting) -> None:
    counting.finish()
    rebuilding = counting.rebuild()
    time.sleep(counting.dice.uniform(0, 4))  # anywhere: nothing is waited for
    rebuilding.kill()
    rebuilding.wait()
    counting.put(1)
    driver = counting.drive()
    if driver.wait() != 0:
        refused_until_rebuilt(counting)


def refused_until_rebuilt(counting: Counting) -> None:
    driver = counting.drive()
    assert CheckpointLost.exit_code == driver.wait(), driver.said
    assert 0 == counting.rebuild().wait()


FAULTS: list[Callable[[Counting], None]] = [
    crash,
    crash,
    kill_while_it_runs,
    restore_an_old_copy,
    delete_a_part,
    crash_a_rebuild,
    kill_a_rebuild,
]


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_no_schedule_of_faults_changes_what_a_stateful_pipeline_computes(
    postgres: RunningPostgres, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = request.config.getoption("--soak-seed")
    ends_at = time.monotonic() + 60 * request.config.getoption("--soak-minutes")
    round_number = 0
    while not round_number or time.monotonic() < ends_at:
        folder = tmp_path / str(round_number)
        folder.mkdir()
        counting = Counting.make(folder, postgres, seed + round_number)
        for fault in counting.dice.choices(FAULTS, k=4):
            counting.put(counting.dice.randrange(1, 5))
            fault(counting)
        counting.finish()
        round_number += 1
