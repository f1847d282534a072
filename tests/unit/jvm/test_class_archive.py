"""An archive of classes is code: it is used only if nobody else can have written it."""

from pathlib import Path

import pytest

from penstock.jvm.class_archive import being_made, is_own, path_of


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


def test_a_new_archive_takes_the_place_of_the_one_before_and_those_of_jars_that_are_gone_go(tmp_path: Path) -> None:
    java, cache = tmp_path / "java", tmp_path / "cache"
    java.touch()
    places = [tmp_path / name for name in ("environment", "other", "gone")]

    def make(place: Path, version: str) -> Path:
        path = path_of(cache, "spark", java, place, version)
        with being_made(path, place) as made:
            made.write_bytes(b"classes")
        return path

    for each in places:
        each.mkdir()
    outdated, others, left = (make(each, "1") for each in places)
    places[2].rmdir()
    newest = make(places[0], "2")

    assert [False, True, False, True] == [each.exists() for each in (outdated, others, left, newest)]
    assert not left.parent.exists()
    assert is_own(newest)
