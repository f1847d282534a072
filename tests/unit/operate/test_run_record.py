"""The record of runs: what ran, how it ended; old ones make room, and nothing depends on it."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.config import settings
from penstock.driver.batch import BatchReport, SinkCount
from penstock.driver.paths import Progress
from penstock.errors import EnvironmentNotReady
from penstock.operate import history
from penstock.operate.driver import _on_record
from penstock.operate.history import RunRecord
from penstock.operate.known_pipelines import paths_of
from penstock.operate.status import Status
from penstock.record.positions import SourcePartition

DAY_S = 86_400


def status(pipeline: str = "orders") -> Status:
    return Status(pipeline=pipeline, state="starting", pid=1, file="/orders.yaml")


def progress(batch: int = 1, read: int = 5) -> Progress:
    sinks = {"delta": SinkCount(read, read - 1, 1, 0)}
    report = BatchReport(
        batch, read, 1, sinks, {"rule": 2}, {SourcePartition("t", "id", 0): 5}, 0.5, handlers={"messages": read}
    )
    return Progress(report, 7)


def at(moment_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.operate.history.time.time", lambda: moment_s)


def test_a_run_and_its_batches_are_listed_the_newest_first(tmp_path: Path) -> None:
    running = status()
    record = RunRecord(tmp_path, running)
    for number in (1, 2):
        running.events, running.dead = 5 * number, number
        record.batch(progress(number))
    record.batch(Progress(None, -1, waiting_for="the broker"))
    running.state = "finished"
    record.end()
    RunRecord(tmp_path, status())
    RunRecord(tmp_path, status("others"))

    second, first = history.runs(tmp_path, "orders", 10)
    assert ("finished", 2, 10, 2) == (first.state, first.batches, first.events, first.dead)
    assert first.ended is not None
    assert ("running", None, 0) == (second.state, second.ended, second.batches)
    assert [second] == history.runs(tmp_path, "orders", 1)
    told = history.batches(tmp_path, "orders", 10)
    assert [(2, 5, 1, 7), (1, 5, 1, 7)] == [(each.batch, each.events, each.dead, each.lag) for each in told]
    assert {"delta": {"read": 5, "written": 4, "dead": 1, "dropped": 0}} == told[0].detail["sinks"]
    assert ({"rule": 2}, {"messages": 5}) == (told[0].detail["rules"], told[0].detail["handlers"])


def test_a_run_that_failed_says_why_and_one_that_ended_without_a_word_has_failed_too(tmp_path: Path) -> None:
    refused, broken = status(), status()
    first, second = RunRecord(tmp_path, refused), RunRecord(tmp_path, broken)
    refused.state, refused.reason = "failed", "no such topic"
    broken.state = "running"
    first.end()
    second.end()

    assert [("failed", ""), ("failed", "no such topic")] == [
        (each.state, each.reason) for each in history.runs(tmp_path, "orders", 2)
    ]


def test_what_is_old_makes_room_and_a_stream_that_still_runs_keeps_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(0, monkeypatch)
    over, streaming = RunRecord(tmp_path, status("over")), RunRecord(tmp_path, status("stream"))
    over.batch(progress())
    streaming.batch(progress(1))
    at(1, monkeypatch)
    over.end()
    at(20 * DAY_S, monkeypatch)
    streaming.batch(progress(2))
    at(40 * DAY_S, monkeypatch)
    RunRecord(tmp_path, status("another"))
    streaming.batch(progress(3))

    assert [] == history.runs(tmp_path, "over", 10)
    assert [] == history.batches(tmp_path, "over", 10)
    assert [3] == [each.batches for each in history.runs(tmp_path, "stream", 10)]
    assert [3, 2] == [each.batch for each in history.batches(tmp_path, "stream", 10)]


def test_a_long_stream_sweeps_its_own_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at(0, monkeypatch)
    streaming = RunRecord(tmp_path, status())
    streaming.batch(progress(999))
    at(40 * DAY_S, monkeypatch)
    streaming.batch(progress(1000))

    assert [1000] == [each.batch for each in history.batches(tmp_path, "orders", 10)]
    assert 1 == len(history.runs(tmp_path, "orders", 10))


def test_what_was_read_of_late_is_summed_up_by_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at(1_000, monkeypatch)
    over, now = RunRecord(tmp_path, status()), RunRecord(tmp_path, status())
    over.batch(progress(1))
    at(1_021, monkeypatch)
    over.batch(progress(2))
    other = RunRecord(tmp_path, status("other"))
    for number in range(1, 301):
        now.batch(progress(number, read=2))
    other.batch(progress(1, read=7))

    assert {"orders": 605, "other": 7} == history.events_since(tmp_path, 1_020)
    assert {} == history.events_since(tmp_path, 1_022)


def test_a_record_of_before_gets_its_index_by_time_with_the_next_run(tmp_path: Path) -> None:
    RunRecord(tmp_path, status()).batch(progress())
    indexes = "SELECT name FROM sqlite_schema WHERE name = 'batches_by_time'"
    with closing(sqlite3.connect(tmp_path / "penstock.db")) as store:
        store.execute("DROP INDEX batches_by_time")
    without = history.events_since(tmp_path, 0)
    RunRecord(tmp_path, status())

    with closing(sqlite3.connect(tmp_path / "penstock.db")) as store:
        assert [("batches_by_time",)] == store.execute(indexes).fetchall()
    assert {"orders": 5} == without == history.events_since(tmp_path, 0)


def test_a_record_that_cannot_be_written_is_reported_once_and_stops_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "penstock.db").mkdir()

    record = RunRecord(tmp_path, status())
    record.batch(progress())
    record.end()

    assert 1 == capsys.readouterr().err.count("warning: the record of runs cannot be written")


def test_a_record_that_breaks_in_the_middle_is_reported_once_and_stops_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = RunRecord(tmp_path, status())
    (tmp_path / "penstock.db").write_bytes(b"no database any more" * 100)
    record.batch(progress())
    record.batch(progress(2))
    record.end()

    assert 1 == capsys.readouterr().err.count("warning: the record of runs cannot be written")


def test_a_record_that_is_not_there_is_empty_and_looking_makes_none(tmp_path: Path) -> None:
    home = tmp_path / "nowhere"

    assert [] == history.runs(home, "orders", 10)
    assert [] == history.batches(home, "orders", 10)
    assert {} == history.events_since(home, 0)
    assert not home.exists()


def test_a_record_that_cannot_be_read_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "penstock.db").write_bytes(b"no database" * 100)

    with pytest.raises(EnvironmentNotReady, match=r"the record of runs cannot be read from .*penstock\.db"):
        history.runs(tmp_path, "orders", 10)


def test_two_drivers_write_into_one_record(tmp_path: Path) -> None:
    records = [RunRecord(tmp_path, status(name)) for name in ("a", "b")]
    for number in range(1, 6):
        for record in records:
            record.batch(progress(number))

    assert [5, 5] == [history.runs(tmp_path, name, 1)[0].batches for name in ("a", "b")]
    with sqlite3.connect(tmp_path / "penstock.db") as store:
        assert [("ok",)] == store.execute("PRAGMA integrity_check").fetchall()
    store.close()


def test_seconds_are_rounded_for_people_and_whole_in_json(tmp_path: Path) -> None:
    paths_of(settings.load(home=tmp_path), "orders").folder.mkdir(parents=True)
    done = progress()
    assert done.report is not None
    RunRecord(tmp_path, status()).batch(replace(done, report=replace(done.report, seconds=1.23456)))

    asked = ["--home", str(tmp_path), "pipeline", "history", "orders", "--batches"]
    shown = CliRunner().invoke(app, asked)
    as_json = CliRunner().invoke(app, [*asked, "--json"])

    columns, row = (line.split() for line in shown.stdout.splitlines())
    assert "1.23" == row[columns.index("seconds") - len(columns)]
    assert [1.23456] == [each["seconds"] for each in json.loads(as_json.stdout)]


def test_a_driver_that_is_stopped_inside_of_a_call_of_confluent_kafka_has_not_failed(
    tmp_path: Path,
) -> None:
    running = status()

    with _on_record(running, tmp_path, tmp_path):
        raise SystemError("list_offsets returned a result with an exception set") from KeyboardInterrupt()

    assert ("stopped", 0) == (running.state, running.exit_code or 0)
