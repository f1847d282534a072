"""What data may do on a terminal, seen through a real one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.terminal import visible

from support.terminals import on_a_terminal

CLEAR, TITLE, REVERSED = "\x1b[2J", "\x1b]0;owned\x07", "\u202e"
HOSTILE = f"{CLEAR}{TITLE}\x9b2J"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, tab\t, ümläut, 漢字, 👩\u200d🚀", "plain, tab\t, ümläut, 漢字, 👩\u200d🚀"),
        (CLEAR, "\\u001b[2J"),
        ("\x9b2J", "\\u009b2J"),
        ("a\rb", "a\\u000db"),
        (f"a{REVERSED}b", "a\\u202eb"),
        ("a\u2066b\u2069", "a\\u2066b\\u2069"),
        ("\ud83d", "\\ud83d"),
        ("\U000e0041", "\\udb40\\udc41"),
        ("one\ntwo", "one\\u000atwo"),
    ],
)
def test_what_would_steer_a_terminal_is_shown_as_an_escape(text: str, expected: str) -> None:
    assert expected == visible(text)


def test_lines_may_stay_lines() -> None:
    assert "one\ntwo\\u001b" == visible("one\ntwo\x1b", lines=True)


def printing(kind: str, arguments: str) -> list[str]:
    return [sys.executable, "-c", f"from penstock.cli.output import print_{kind}; print_{kind}({arguments})"]


TABLE = printing("table", f"['[/bad]', {REVERSED!a}], [[{'[red]' + HOSTILE!a}, 1]], own_data=True")
JSON = printing("json", f"{{'[/bad]': {'[red]' + HOSTILE!a}, {REVERSED!a}: 1}}")


@pytest.mark.parametrize("variable", ["TTY_COMPATIBLE=0", "TTY_COMPATIBLE=1", "TERM=dumb"])
@pytest.mark.parametrize("command", [TABLE, JSON], ids=["table", "json"])
def test_names_and_values_reach_a_terminal_as_text(command: list[str], variable: str) -> None:
    command = ["env", variable, *command]
    said = on_a_terminal(*command)

    assert all(text in said for text in ("[/bad]", "[red]", "\\u001b[2J", "\\u202e"))
    assert [] == [steering for steering in (CLEAR, TITLE, REVERSED, "\x9b") if steering in said]


def test_json_has_integers_of_any_size_and_halves_of_characters() -> None:
    command = printing("json", r"{'at': 10**30, 'name': '\ud83d'}")

    done = subprocess.run(command, capture_output=True, check=True)

    assert {"at": 10**30, "name": "\ud83d"} == json.loads(done.stdout)


def test_what_is_piped_stays_as_it_is() -> None:
    done = subprocess.run(TABLE, capture_output=True, check=True)

    assert f"[red]{CLEAR}" in done.stdout.decode()


def test_an_error_is_one_line_of_text_wherever_it_goes(tmp_path: Path) -> None:
    name = tmp_path / f"no{CLEAR}project\nerror: forged"
    command = [sys.executable, "-m", "penstock", "--project", str(name), "topic", "list"]

    shown = on_a_terminal(*command)
    piped = subprocess.run(command, capture_output=True, check=False).stderr.decode()

    assert CLEAR not in shown + piped
    assert 1 == len(piped.splitlines())
