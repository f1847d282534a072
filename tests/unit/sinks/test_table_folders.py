"""Which tables are found nearby, wherever the command runs."""

import os
from pathlib import Path
from typing import Any

import pytest

from penstock.sinks.table_folders import table_folders


def make_delta(folder: Path) -> None:
    (folder / "_delta_log").mkdir(parents=True)
    (folder / "_delta_log/0.json").touch()


def test_a_folder_that_disappears_meanwhile_hides_no_other_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gone", "here", "very/deep"):
        make_delta(tmp_path / name / "orders")
    scandir = os.scandir

    def as_in_proc(path: Any) -> Any:
        if str(path).endswith("gone"):
            raise FileNotFoundError(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", as_in_proc)

    assert ["here/orders", "very/deep/orders"] == list(table_folders(tmp_path))


def test_tables_are_named_from_the_folder_with_the_nearest_ones_first(tmp_path: Path) -> None:
    for name in ("b", "a/x", ".hidden", "a/x/y/z"):
        make_delta(tmp_path / name)
    (tmp_path / "empty/_delta_log").mkdir(parents=True)
    (tmp_path / "c/metadata").mkdir(parents=True)
    (tmp_path / "c/metadata/1.metadata.json").touch()

    assert ["b", "c", "a/x"] == list(table_folders(tmp_path))
