"""The record of runs and batches, in a SQLite file beside the pipelines.

It decides nothing, and a pipeline that cannot write it goes on, with one warning on stderr. Batches, and runs that have
ended, are deleted after 30 days.
"""

import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, Field

from penstock.driver.paths import Progress
from penstock.errors import EnvironmentNotReady, FormatNotUnderstood
from penstock.operate.status import Status
from penstock.private import OWNER_ONLY, make_missing_private
from penstock.record.formats import RUNS, require_format

_FILE = "penstock.db"
_KEPT_S = 30 * 86_400
_BUSY_S = 5.0
_SWEPT_EVERY = 1000
_TABLES = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY, pipeline TEXT NOT NULL, file TEXT NOT NULL, pid INTEGER NOT NULL, started REAL NOT NULL,
    ended REAL, state TEXT NOT NULL, batches INTEGER NOT NULL DEFAULT 0, events INTEGER NOT NULL DEFAULT 0,
    dead INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS runs_of_pipeline ON runs (pipeline, id);
CREATE TABLE IF NOT EXISTS batches (
    run INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE, batch INTEGER NOT NULL, at REAL NOT NULL,
    seconds REAL NOT NULL, events INTEGER NOT NULL, dead INTEGER NOT NULL, lag INTEGER NOT NULL, detail TEXT NOT NULL,
    PRIMARY KEY (run, batch)
) WITHOUT ROWID;
PRAGMA user_version = {RUNS};
COMMIT;
"""
_BY_TIME = "CREATE INDEX IF NOT EXISTS batches_by_time ON batches (at, events)"
"""What sums up the last seconds without reading all batches; made when a run begins, for records that lack it."""
_VERSION = "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"


# A stream may run for longer than records are kept: its run goes with its last batch.
_OLD_BATCHES = "DELETE FROM batches WHERE at < ?"
_OLD_RUNS = """
DELETE FROM runs WHERE coalesce(ended, (SELECT max(at) FROM batches WHERE run = runs.id), started) < ?"""


class Run(BaseModel):
    """One run of a driver."""

    id: int = Field(description="Its number in the record.")
    pipeline: str = Field(description="The pipeline.")
    file: str = Field(description="The pipeline file.")
    pid: int = Field(description="Process id of the driver.")
    started: float = Field(description="When it started, in seconds since 1970.")
    ended: float | None = Field(description="When it ended; none if it runs, or was killed.")
    state: str = Field(description="finished, stopped or failed; running if it has not said.")
    batches: int = Field(description="Batches.")
    events: int = Field(description="Events read.")
    dead: int = Field(description="Dead letters written.")
    reason: str = Field(description="Why it failed.")


class BatchRecord(BaseModel):
    """One batch of a run."""

    run: int = Field(description="The run.")
    batch: int = Field(description="Number of the batch.")
    at: float = Field(description="When it was done, in seconds since 1970.")
    seconds: float = Field(description="How long it took.")
    events: int = Field(description="Events read.")
    dead: int = Field(description="Dead letters written.")
    lag: int = Field(description="Events that were left in the source.")
    detail: dict[str, object] = Field(description="Per sink, per rule, per stage, and what handlers did.")


@contextmanager
def _opened(home: Path) -> Iterator[sqlite3.Connection]:
    make_missing_private(home)
    # SQLite gives the files beside it the same mode.
    (home / _FILE).touch(OWNER_ONLY)
    connection = sqlite3.connect(home / _FILE, timeout=_BUSY_S)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA foreign_keys = ON")
        if not _is_made(connection, home / _FILE):
            connection.executescript(_TABLES)
        with connection:
            yield connection
    finally:
        connection.close()


def _is_made(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether the tables are there; raise `FormatNotUnderstood` if they are of another version."""
    version, tables = connection.execute(_VERSION).fetchone()
    if tables:
        require_format(str(path), version, RUNS, otherwise="move it away; the next run begins a new one")
    return bool(tables)


class RunRecord:
    """Writes down one run."""

    def __init__(self, home: Path, status: Status) -> None:
        self._home = home
        self._status = status
        self._reported = False
        self._id: int | None = None
        with self._forgiving(), _opened(home) as store:
            store.execute(_BY_TIME)
            _sweep(store)
            added = store.execute(
                "INSERT INTO runs (pipeline, file, pid, started, state) VALUES (?, ?, ?, ?, 'running')",
                [status.pipeline, status.file, status.pid, time.time()],
            )
            self._id = added.lastrowid

    @contextmanager
    def _forgiving(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, FormatNotUnderstood) as error:
            if not self._reported:
                print(f"warning: the record of runs cannot be written: {error}", file=sys.stderr)  # noqa: T201
            self._reported = True

    def batch(self, progress: Progress) -> None:
        """Write down a batch."""
        report = progress.report
        if report is None or self._id is None:
            return
        detail = {
            "sinks": {name: vars(count) for name, count in report.sinks.items()},
            "rules": report.rules,
            "stages": report.stages,
            "handlers": report.handlers,
        }
        with self._forgiving(), _opened(self._home) as store:
            store.execute(
                "INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    *(self._id, report.batch, time.time(), report.seconds, report.read, report.dead, progress.lag),
                    orjson.dumps(detail).decode(),
                ],
            )
            store.execute(
                "UPDATE runs SET batches = batches + 1, events = ?, dead = ? WHERE id = ?",
                [self._status.events, self._status.dead, self._id],
            )
            if report.batch % _SWEPT_EVERY == 0:
                _sweep(store)

    def end(self) -> None:
        """Write down how it ended; a driver that could not do this has failed."""
        state = self._status.state if self._status.state in {"finished", "stopped"} else "failed"
        if self._id is not None:
            with self._forgiving(), _opened(self._home) as store:
                store.execute(
                    "UPDATE runs SET ended = ?, state = ?, reason = ? WHERE id = ?",
                    [time.time(), state, self._status.reason, self._id],
                )


def _sweep(store: sqlite3.Connection) -> None:
    before = time.time() - _KEPT_S
    store.execute(_OLD_BATCHES, [before])
    store.execute(_OLD_RUNS, [before])


def _found(home: Path, query: str, *values: object) -> list[dict[str, Any]]:
    """Read rows; no file is created if nothing was ever written."""
    if not (home / _FILE).exists():
        return []
    try:
        with _opened(home) as store:
            store.row_factory = sqlite3.Row
            return [dict(row) for row in store.execute(query, values)]
    except (sqlite3.Error, OSError) as error:
        raise EnvironmentNotReady(
            f"the record of runs cannot be read from {home / _FILE}: {error}",
            safe="Pipelines do not need it",
            fix="Move it away; the next run begins a new one",
        ) from None


def runs(home: Path, pipeline: str, count: int) -> list[Run]:
    """Return the last runs of a pipeline, the newest first."""
    query = "SELECT * FROM runs WHERE pipeline = ? ORDER BY id DESC LIMIT ?"
    return [Run.model_validate(row) for row in _found(home, query, pipeline, count)]


def batches(home: Path, pipeline: str, count: int) -> list[BatchRecord]:
    """Return the last batches of a pipeline, the newest first."""
    query = (
        "SELECT batches.* FROM batches JOIN runs ON runs.id = run WHERE pipeline = ?"
        " ORDER BY run DESC, batch DESC LIMIT ?"
    )
    found = _found(home, query, pipeline, count)
    return [BatchRecord.model_validate({**row, "detail": orjson.loads(row["detail"])}) for row in found]


def events_since(home: Path, moment: float) -> dict[str, int]:
    """Return how many events each pipeline has read since a moment, of those that have read any.

    With the index it costs what was recorded since, however long the record is.
    """
    query = (
        # As written: from the batches of these seconds to their runs, never from all runs to their batches.
        "SELECT pipeline, sum(batches.events) AS events FROM batches CROSS JOIN runs ON runs.id = run"
        " WHERE at >= ? GROUP BY pipeline"
    )
    return {row["pipeline"]: row["events"] for row in _found(home, query, moment)}
