import hashlib
import io
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.errors import EnvironmentNotReady
from penstock.jvm import archives, jars
from penstock.jvm.jars import Jar


def packed(path: Path, files: dict[str, bytes]) -> str:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jar:
    """An archive that is locked, and here."""
    folder = tmp_path / "jars"
    folder.mkdir()
    archives.unpack(_made(tmp_path / "made.tar.gz"), tmp_path / "expected")
    locked = Jar(
        organisation="o",
        name="n",
        revision="1.0",
        classifier="all",
        type="tar.gz",
        sha256=packed(folder / "o__n-1.0-all.tar.gz", {"run.jar": b"program", "lib/a.jar": b"library"}),
        content_sha256=archives.content_digest(tmp_path / "expected"),
    )
    monkeypatch.setattr(jars, "locked", lambda _set: (locked,))
    return locked


def _made(path: Path) -> Path:
    packed(path, {"run.jar": b"program", "lib/a.jar": b"library"})
    return path


def test_an_archive_is_unpacked_once_and_not_kept(archive: Jar, tmp_path: Path) -> None:
    place = archives.ensure("registry", tmp_path / "jars")

    assert (b"program", b"library") == ((place / "run.jar").read_bytes(), (place / "lib" / "a.jar").read_bytes())
    assert not (tmp_path / "jars" / archive.file_name).exists()
    assert place == archives.ensure("registry", tmp_path / "jars")  # and nothing is fetched for that
    assert archive.stem == place.name


def test_of_many_who_need_it_at_once_one_unpacks_it_and_all_have_it(archive: Jar, tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def need(_: int) -> Path:
        together.wait()
        return archives.ensure("registry", tmp_path / "jars")

    with ThreadPoolExecutor(8) as pool:
        places = list(pool.map(need, range(8)))

    assert {tmp_path / "jars" / archive.stem} == set(places)


def test_what_was_damaged_or_added_is_unpacked_again(archive: Jar, tmp_path: Path) -> None:
    packed_whole = (tmp_path / "jars" / archive.file_name).read_bytes()
    place = archives.ensure("registry", tmp_path / "jars")
    (place / "lib" / "b.jar").write_bytes(b"planted")
    (tmp_path / "jars" / archive.file_name).write_bytes(packed_whole)
    archives.ensure("registry", tmp_path / "jars")

    assert not (place / "lib" / "b.jar").exists()


def test_an_archive_with_other_content_than_locked_is_refused(
    archive: Jar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = archive.model_copy(update={"content_sha256": "0" * 64})
    monkeypatch.setattr(jars, "locked", lambda _set: (other,))

    with pytest.raises(EnvironmentNotReady, match="does not hold what was locked"):
        archives.ensure("registry", tmp_path / "jars")


@pytest.mark.parametrize("name", ["../outside", "lib/../../outside", "/outside"])
def test_an_archive_that_reaches_out_of_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    packed(tmp_path / "bad.tar.gz", {name: b"x"})

    with pytest.raises(tarfile.TarError):
        archives.unpack(tmp_path / "bad.tar.gz", tmp_path / "place")
    assert not (tmp_path / "outside").exists()
    assert not (tmp_path / "place").exists()


def test_an_archive_with_a_link_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bad.tar.gz", "w:gz") as archive:
        link = tarfile.TarInfo("lib")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        archive.addfile(link)

    with pytest.raises(tarfile.TarError):
        archives.unpack(tmp_path / "bad.tar.gz", tmp_path / "place")
