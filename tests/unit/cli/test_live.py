"""What changes, shown as it does."""

import io
import json
import os
import sys
from itertools import islice
from pathlib import Path

import pytest

from penstock.cli import live
from penstock.driver.log_files import last_lines


@pytest.mark.parametrize("as_json", [False, True])
def test_a_pipe_gets_each_change_once_and_the_last_one_too(monkeypatch: pytest.MonkeyPatch, *, as_json: bool) -> None:
    monkeypatch.setattr(live, "_LOOK_EVERY_S", 0)
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe))
    states = ["starting", "running", "running", "stopped"]
    looks = iter(states)
    overs = iter([False, False, False, True])

    live.watch(["name", "state"], lambda: [["orders", next(looks)]], is_over=lambda _rows: next(overs), as_json=as_json)

    lines = pipe.getvalue().decode().splitlines()
    if as_json:
        assert ["starting", "running", "stopped"] == [json.loads(line)["state"] for line in lines]
    else:
        assert ["name\tstate", "orders\tstarting", "orders\trunning", "orders\tstopped"] == lines


def test_two_of_one_name_that_stay_as_they_are_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_LOOK_EVERY_S", 0)
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe))
    overs = iter([False, False, True])
    rows: live.Rows = [["lineage", "service", "http://here"], ["lineage", "pipeline", None]]

    live.watch(["part", "kind", "where"], lambda: rows, is_over=lambda _rows: next(overs), known_by=2)

    shown = ["part\tkind\twhere", "lineage\tservice\thttp://here", "lineage\tpipeline\t-"]
    assert shown == pipe.getvalue().decode().splitlines()


def test_a_log_is_followed_across_a_roll_and_after_it_was_emptied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(live, "_LOOK_EVERY_S", 0)
    log = tmp_path / "driver.log"
    log.write_text("one\ntwo\nthree\n")
    lines = live.follow(log, lines=2)
    first = list(islice(lines, 2))
    with log.open("a") as file:
        file.write("four\nhal")
    fourth = next(lines)
    log.rename(tmp_path / "driver.log.1")
    log.write_text("five\n")
    after_roll = list(islice(lines, 2))
    os.truncate(log, 0)
    with log.open("a") as file:
        file.write("6\n")
    after_emptying = next(lines)

    assert ["two", "three"] == first
    assert "four" == fourth
    assert ["hal", "five"] == after_roll
    assert "6" == after_emptying


def test_what_java_says_is_left_out_of_what_the_steps_printed(tmp_path: Path) -> None:
    log = tmp_path / "spark-console.log"
    log.write_text("WARNING: Using incubator modules: jdk.incubator.vector\nWARNING: mine\nWARNING: Using it\n")

    shown = last_lines(log, 2, leave_out="WARNING: Using incubator modules:")

    assert ["WARNING: mine", "WARNING: Using it"] == shown
