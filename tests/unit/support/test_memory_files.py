"""Where unit tests make their temporary files."""

import os
import tempfile
from pathlib import Path

import pytest

from support import memory_files


@pytest.fixture
def tmpdir_before(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TMPDIR", "/somewhere")
    monkeypatch.setattr(tempfile, "tempdir", "/somewhere")
    return "/somewhere"


@pytest.mark.usefixtures("tmpdir_before")
def test_files_are_made_in_memory_also_by_the_processes_that_are_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_files, "_MEMORY", tmp_path)
    monkeypatch.setattr(memory_files, "_NEEDED_BYTES", 0)

    memory_files.use_memory_for_files()

    assert (str(tmp_path), str(tmp_path)) == (os.environ["TMPDIR"], tempfile.gettempdir())


@pytest.mark.parametrize(
    ("folder", "needed_bytes", "flags"),
    [
        pytest.param("nowhere", 0, 0, id="no such folder"),
        pytest.param(".", 2**80, 0, id="too small"),
        pytest.param(".", 0, os.ST_NOEXEC, id="nothing can be run from there"),
    ],
)
def test_without_a_fit_place_in_memory_they_stay_where_they_were(
    folder: str, needed_bytes: int, flags: int, tmpdir_before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_files, "_MEMORY", tmp_path / folder)
    monkeypatch.setattr(memory_files, "_NEEDED_BYTES", needed_bytes)
    monkeypatch.setattr(memory_files, "_flags", lambda _: flags)

    memory_files.use_memory_for_files()

    assert (tmpdir_before, tmpdir_before) == (os.environ["TMPDIR"], tempfile.gettempdir())
