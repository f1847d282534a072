"""How far something is: drawn on a terminal, told in lines elsewhere."""

import subprocess
import sys

import pytest

from penstock.cli import progress
from penstock.cli.progress import measure
from penstock.cli.run_display import run_display
from penstock.operate.status import Status

from support.terminals import on_a_terminal

PROGRAM = """
from penstock.cli import progress
from penstock.cli.output import say
progress._LINE_EVERY_S = -1.0
with progress.bar("moving [red]partitions") as shown:
    for done in (1, 2000, 4000):
        shown.update(done, 5000)
    shown._progress.refresh()
    shown.describe("nearly there")
say("moved")
"""
COMMAND = [sys.executable, "-c", PROGRAM]


@pytest.mark.parametrize(
    ("done", "total", "per_s", "expected"),
    [
        (0, None, None, ""),
        (0, 5000, None, "0 of 5,000"),
        (1200, None, 400.0, "1,200, 400/s"),
        (1200, 5000, 400.0, "1,200 of 5,000, 400/s, 0:10 left"),
        (1, 4, 0.01, "1 of 4, 5:00 left"),
        (0, 7_200_000, 1000.0, "0 of 7,200,000, 1,000/s, 2:00:00 left"),
        (5000, 5000, 400.0, "5,000 of 5,000, 400/s"),
    ],
)
def test_how_far_it_is_has_a_rate_and_an_end_in_sight_as_soon_as_they_are_known(
    done: int, total: int | None, per_s: float | None, expected: str
) -> None:
    assert expected == measure(done, total, per_s)


def test_bytes_are_told_in_megabytes() -> None:
    assert "2.5 MB of 10.0 MB, 1.5 MB/s, 0:05 left" == measure(2_500_000, 10_000_000, 1_500_000.0, "bytes")


def test_what_has_not_begun_is_told_without_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LINE_EVERY_S", -1.0)

    with run_display() as show:
        show(Status(pipeline="orders", pid=1, state="starting", file=""))
        show(Status(pipeline="orders", pid=1, state="running", file="", batch=1, batch_seconds=2.0, events=5))

    assert ["orders: starting", "orders: running, batch 1 in 2.0 s, 0 dead letters: 5 of 5"] == [
        line.partition(", 0:00 left")[0] for line in capsys.readouterr().err.splitlines()
    ]


def test_a_terminal_gets_a_bar_that_is_gone_at_the_end() -> None:
    said = on_a_terminal("env", "TERM=xterm-256color", "COLUMNS=120", *COMMAND)

    assert "moving [red]partitions" in said
    assert "4,000 of 5,000" in said
    assert "━" in said
    assert said.rstrip().endswith("moved")
    assert "\x1b[2K" in said.split("nearly there")[-1]


def test_a_terminal_that_wants_no_colours_gets_lines() -> None:
    said = on_a_terminal("env", "TERM=xterm", "NO_COLOR=1", *COMMAND)

    assert "\x1b" not in said
    assert "moving [red]partitions: 4,000 of 5,000" in said


def test_a_pipe_gets_lines() -> None:
    said = subprocess.run(COMMAND, capture_output=True, text=True, check=True).stderr.splitlines()

    assert ["moving [red]partitions: 1 of 5,000", "nearly there", "moved"] == [said[0], *said[-2:]]
