"""Folders of ours, made where somebody else may be faster."""

import os
from pathlib import Path

import pytest

from penstock.errors import Conflict
from penstock.private import make_missing_private


def test_a_folder_that_a_stranger_makes_in_the_last_moment_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".penstock"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(Path, "exists", lambda path: path != folder)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setattr("penstock.private._ROOT", 12345)

    with pytest.raises(Conflict, match="belongs to another user"):
        make_missing_private(folder)
