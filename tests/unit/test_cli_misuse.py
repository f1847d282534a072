"""A command line that cannot be understood: one line that says what is wrong, and where to read more."""

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
        ("bench brokers --events -1", "'--events': Input should be greater than or equal to 1000"),
    ],
)
def test_what_is_wrong_with_a_command_line_is_told_in_one_line(arguments: str, reason: str) -> None:
    said = CliRunner().invoke(app, arguments.split(), prog_name="penstock")

    assert (said.exit_code, said.stdout) == (2, "")
    (line,) = said.stderr.splitlines()
    assert line.startswith("error: ")
    assert reason in line


def test_mistakes_in_a_file_are_told_in_a_line_each(tmp_path: Path) -> None:
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
