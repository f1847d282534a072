"""Tables as a terminal of some width, or a pipe, shows them."""

import io
import os
import sys
from typing import Any

import pytest

from penstock.cli import tables

COLUMNS = ["topic", "partitions", "note"]
ROWS = [["orders", 3, "short"], ["returns", 12_000, "a note that goes on for longer than anybody would want to read"]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("NO_COLOR", "1")
    return monkeypatch


def render(
    terminal: pytest.MonkeyPatch, columns: list[str], rows: list[list[Any]], *, own_data: bool = False
) -> list[str]:
    with terminal.context() as here:
        here.setattr(sys, "stdout", Terminal())
        return tables.render(columns, rows, own_data=own_data)


def wide(terminal: pytest.MonkeyPatch, columns: int) -> list[str]:
    terminal.setenv("COLUMNS", str(columns))
    return render(terminal, COLUMNS, ROWS)


def test_a_terminal_that_is_wide_enough_shows_everything(terminal: pytest.MonkeyPatch) -> None:
    assert [
        "topic    partitions  note",
        "orders            3  short",
        "returns      12,000  a note that goes on for longer than anybody would want to read",
    ] == wide(terminal, 100)


def test_what_does_not_fit_is_cut_and_marked(terminal: pytest.MonkeyPatch) -> None:
    lines = wide(terminal, 40)

    assert "returns      12,000  a note that goes o…" == lines[2]
    assert all(len(line) <= 40 for line in lines)


def test_where_it_is_too_narrow_records_stand_below_each_other(terminal: pytest.MonkeyPatch) -> None:
    lines = wide(terminal, 20)

    assert ["topic       orders", "partitions  3", "note        short", "", "topic       returns"] == lines[:5]


def test_wide_cuts_nothing(terminal: pytest.MonkeyPatch) -> None:
    terminal.setattr(tables, "is_wide", True)

    assert wide(terminal, 20)[2].endswith("want to read")


def test_a_pipe_gets_whole_values_and_a_line_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr(sys, "stdout", io.StringIO())

    lines = tables.render(["value", "seconds"], [["x" * 300 + "\nend", 1.23456789]])

    assert ["x" * 300 + "\\nend", "1.23456789"] == lines[1].split()


def test_people_get_rounded_numbers_and_their_own_data_to_the_letter(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "100")

    rounded = render(terminal, ["a", "b", "c"], [[0.0123456, 123456.789, 1234567]])
    exact = render(terminal, ["a"], [[123456.789]], own_data=True)

    assert ["0.0123", "123,457", "1,234,567"] == rounded[1].split()
    assert "123456.789" == exact[1].strip()


def test_numbers_that_are_names_can_be_copied_into_a_command(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("COLUMNS", "80")

    shown = render(terminal, ["port", "dead_offset", "events"], [[9092, 1234, 1234]])

    assert ["9092", "1234", "1,234"] == shown[1].split()


def test_states_have_colours_only_where_they_are_wanted(terminal: pytest.MonkeyPatch) -> None:
    plain = render(terminal, ["state"], [["running"], ["failed"]])
    terminal.delenv("NO_COLOR")
    terminal.setenv("TERM", "xterm")
    coloured = render(terminal, ["state"], [["running"], ["failed"]])

    assert ["state", "running", "failed"] == plain
    assert ["\x1b[1mstate  \x1b[0m", "\x1b[32mrunning\x1b[0m", "\x1b[31mfailed \x1b[0m"] == coloured
    assert "NO_COLOR" not in os.environ
