"""penstock init, as somebody sees it who has no project yet."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app


def test_init_names_the_one_command_that_brings_the_project_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    said = CliRunner().invoke(app, ["init"])

    assert (0, "penstock.yaml written; next: penstock up\n") == (said.exit_code, said.stderr)


def test_of_another_folder_it_says_to_go_there_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    said = CliRunner().invoke(app, ["init", "my shop"])

    assert "my shop/penstock.yaml written; next: cd 'my shop' && penstock up\n" == said.stderr
