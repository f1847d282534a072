"""Folders of ours, made where somebody else may be faster, and the ways to programs that we run."""

import os
from pathlib import Path

import pytest

from penstock.errors import Conflict
from penstock.private import distrust_way, make_missing_private, make_missing_public, replace_file


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


def test_a_link_to_nowhere_in_the_place_of_a_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / ".penstock").symlink_to("nothing")

    with pytest.raises(Conflict, match="leads nowhere"):
        make_missing_private(tmp_path / ".penstock" / "broker")


def test_a_link_in_the_place_of_a_file_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "picture.svg").symlink_to("precious")

    replace_file(tmp_path / "picture.svg", b"<svg/>")

    assert ("mine", "<svg/>") == ((tmp_path / "precious").read_text(), (tmp_path / "picture.svg").read_text())
    assert {"precious", "picture.svg"} == {each.name for each in tmp_path.iterdir()}


def test_a_way_of_ones_own_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")

    assert distrust_way(tmp_path / "a") is None
    assert distrust_way(tmp_path / "link") is None


@pytest.mark.parametrize("way", ["open/inner/program", "link/program", "chain/program"])
def test_a_folder_that_others_may_change_anywhere_on_the_way_is_named(tmp_path: Path, way: str) -> None:
    inner = tmp_path / "open" / "inner"
    inner.mkdir(parents=True)
    (inner / "program").touch()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to("open/inner")
    (tmp_path / "chain").symlink_to("link")

    assert f"{tmp_path / 'open'} is writable by everybody" == distrust_way(tmp_path / way)


def test_a_folder_for_programs_is_its_owners_to_write_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_missing_public(tmp_path / "cache" / "jars")
    finally:
        os.umask(before)

    assert [0o755, 0o755] == [(tmp_path / name).stat().st_mode & 0o777 for name in ("cache", "cache/jars")]
