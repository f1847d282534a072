"""penstock init, as somebody sees it who has no project yet."""

import errno
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.config import project


def test_init_names_the_one_command_that_brings_the_project_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    said = CliRunner().invoke(app, ["init"])

    assert (0, "penstock.yaml written; next: penstock up\n") == (said.exit_code, said.stderr)


def test_of_another_folder_it_says_to_go_there_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    said = CliRunner().invoke(app, ["init", "my shop"])

    assert "my shop/penstock.yaml written; next: cd 'my shop' && penstock up\n" == said.stderr


def test_a_full_disk_leaves_no_half_of_a_project_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fdopen", full)

    said = CliRunner().invoke(app, ["init"])

    assert (7, True) == (said.exit_code, "Make room on the disk, then run it again" in said.stderr)
    assert not (tmp_path / project.FILE_NAME).exists()


def test_of_a_project_that_is_there_it_says_what_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / project.FILE_NAME).touch()

    said = CliRunner().invoke(app, ["init"])

    expected = "penstock.yaml already exists. It was not touched. Start what it describes with: penstock up"
    assert (6, f"error: {expected}\n") == (said.exit_code, said.stderr)
