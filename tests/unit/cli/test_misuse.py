"""A command line that cannot be understood: one line that says what is wrong, and where to read more."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("--nosuch", "no such option: --nosuch. See: penstock --help"),
        ("nosuch", "no such command 'nosuch'. See: penstock --help"),
        ("topic create", "missing argument 'name'. See: penstock topic create --help"),
        ("topic create a b", "got unexpected extra argument(s) (b). See: penstock topic create --help"),
        ("topic list --nosuch", "no such option: --nosuch. See: penstock topic list --help"),
        ("scenario poison --sink oracle", "'oracle' is not one of 'delta', 'json', 'kafka', 'postgres'"),
        ("--home", "option '--home' requires an argument. See: penstock --help"),
        ("topic create --partitions", "option '--partitions' requires an argument. See: penstock topic --help"),
        ("dead list --stage", "option '--stage' requires an argument. See: penstock dead --help"),
        (
            "dead list --stage decoed",
            "value for '--stage': 'decoed' is not one of 'decode', 'step', 'handler', 'sql', 'expect', 'where'",
        ),
        ("bench brokers --events -1", "'--events': Input should be greater than or equal to 1000"),
    ],
)
def test_what_is_wrong_with_a_command_line_is_reported_in_one_line(arguments: str, reason: str) -> None:
    said = CliRunner().invoke(app, arguments.split(), prog_name="penstock")

    assert (said.exit_code, said.stdout) == (2, "")
    (line,) = said.stderr.splitlines()
    assert line.startswith("error: ")
    assert reason in line


def test_mistakes_in_a_file_are_reported_in_a_line_each(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("name: bad\nsourse: {topics: [a]}\nsinks: [{type: console}]\n")

    said = CliRunner().invoke(app, ["pipeline", "check", str(file)], prog_name="penstock")

    assert [
        f"error: {file}:1: source: this key is required",
        f"{file}:2: sourse: this key is not known; did you mean 'source'?",
    ] == said.stderr.splitlines()


def test_a_group_without_a_command_shows_its_help() -> None:
    said = CliRunner().invoke(app, ["topic"], prog_name="penstock")

    assert said.exit_code == 2
    assert "Usage: penstock topic" in said.output
    assert "error:" not in said.output


@pytest.mark.parametrize("command", ["gaps", "history", "status", "stop", "logs", "rate"])
def test_a_pipeline_that_never_ran_is_reported_as_such(tmp_path: Path, command: str) -> None:
    said = CliRunner().invoke(app, ["--home", str(tmp_path), "pipeline", command, "ordres"], prog_name="penstock")

    assert (3, "") == (said.exit_code, said.stdout)
    assert "error: no pipeline 'ordres' has run here. List them with: penstock pipeline list\n" == said.stderr


@pytest.mark.parametrize("command", ["check", "run", "start", "rebuild", "skip-gap"])
def test_a_pipeline_file_that_is_not_there_is_reported_with_those_that_are(tmp_path: Path, command: str) -> None:
    wanted = tmp_path / "ordres.yaml"
    arguments = ["--home", str(tmp_path / "home"), "pipeline", command, str(wanted)]

    empty = CliRunner().invoke(app, arguments, prog_name="penstock")
    for name in ("orders.yaml", "totals.yml", "penstock.yaml"):
        (tmp_path / name).touch()
    said = CliRunner().invoke(app, arguments, prog_name="penstock")

    assert (3, 3) == (empty.exit_code, said.exit_code)
    missing = f"error: there is no pipeline file {wanted}."
    assert f"{missing} Write one with: penstock pipeline new NAME\n" == empty.stderr
    there = f"{tmp_path / 'orders.yaml'}, {tmp_path / 'totals.yml'}"
    assert f"{missing} There are {there}; penstock pipeline new NAME writes another\n" == said.stderr


def test_a_name_that_no_pipeline_has_is_reported_with_what_to_name(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["--home", str(tmp_path), "pipeline", "rebuild", "orders"], prog_name="penstock")

    assert 3 == said.exit_code
    assert "no pipeline 'orders' has run here. List those that have with: penstock pipeline list" in said.stderr
    assert "of one that has not, name the file" in said.stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (["topic", "list", "--josn", "--json"], 2),
        (["--project", "nowhere.yaml", "topic", "list", "--json"], 3),
        (["pipeline", "status", "nobody", "--json"], 3),
    ],
)
def test_errors_are_json_where_the_output_is(tmp_path: Path, arguments: list[str], exit_code: int) -> None:
    command = [sys.executable, "-m", "penstock", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert exit_code == done.returncode
    (line,) = done.stderr.splitlines()
    assert exit_code == json.loads(line)["exit_code"]
    assert json.loads(line)["error"]
