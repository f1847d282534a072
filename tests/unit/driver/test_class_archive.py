"""The archive of Spark's classes is code: it is used only if nobody else can have written it."""

from pathlib import Path

import pytest

from penstock.driver.class_archive import is_own


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "classes" / "spark.jsa"
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"classes")
    path.chmod(0o600)
    return path


def test_an_archive_of_ones_own_is_used(archive: Path) -> None:
    assert is_own(archive)


def test_an_archive_that_is_not_there_is_not_used(tmp_path: Path) -> None:
    assert not is_own(tmp_path / "spark.jsa")


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_an_archive_that_others_may_write_is_not_used(
    archive: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setattr("penstock.private._is_own_group", lambda _group_id: False)
    archive.chmod(mode)

    assert not is_own(archive)


@pytest.mark.parametrize("above", [0, 1])
def test_an_archive_below_a_folder_that_others_may_write_is_not_used(archive: Path, above: int) -> None:
    archive.parents[above].chmod(0o777)

    assert not is_own(archive)


def test_an_archive_of_somebody_else_is_not_used(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = archive.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    monkeypatch.setattr("penstock.private._ROOT", owner + 2)

    assert not is_own(archive)


def test_a_link_to_an_archive_is_not_used(archive: Path) -> None:
    link = archive.with_name("link.jsa")
    link.symlink_to(archive)

    assert not is_own(link)
