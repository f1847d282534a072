"""Programs that come as an archive of jars: fetched once as locked, unpacked, and verified at every use.

What is verified is what runs: the checksum in the lock is over every file that was unpacked, its name included. The
archive itself is not kept.
"""

import hashlib
import shutil
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

from penstock.errors import EnvironmentNotReady
from penstock.jvm import jars
from penstock.private import make_public


def ensure(jar_set: jars.JarSet, folder: Path, progress: jars.Progress = lambda _there, _wanted: None) -> Path:
    """Return the folder of an unpacked program, verified; fetch and unpack it if it is missing or damaged."""
    (archive,) = jars.locked(jar_set)
    place = folder / archive.stem
    if not _is_sound(place, archive):
        # The archive goes once it is unpacked, so whoever comes second must not be about to open it.
        with jars.one_at_a_time(folder, archive.stem):
            if not _is_sound(place, archive):
                (path,) = jars.ensure(jar_set, folder, progress)
                _unpack_whole(path, place, archive)
                path.unlink()
    return place


def _is_sound(place: Path, archive: jars.Jar) -> bool:
    if not place.exists():
        return False
    jars.require_own(place.rglob("*"), place)
    return content_digest(place) == archive.content_sha256


def _unpack_whole(path: Path, place: Path, archive: jars.Jar) -> None:
    with tempfile.TemporaryDirectory(prefix="unpack-", dir=place.parent) as scratch:
        fresh = Path(scratch) / "fresh"
        unpack(path, fresh)
        if content_digest(fresh) != archive.content_sha256:
            raise EnvironmentNotReady(f"{path} does not hold what was locked", safe="Nothing was started")
        if place.exists():
            place.rename(Path(scratch) / "damaged")
        fresh.rename(place)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the files of an archive; one with a link, or with what would land outside the folder, is refused."""
    folder.mkdir()
    try:
        # By hand, as Python before 3.11.4 has no filters for this.
        with tarfile.open(archive) as opened:
            for member in opened:
                place = PurePosixPath(member.name)
                if place.is_absolute() or ".." in place.parts or not (member.isreg() or member.isdir()):
                    raise tarfile.ExtractError(f"{member.name} is not a file or folder within the archive")
                if (content := opened.extractfile(member)) is not None:
                    (folder / place).parent.mkdir(parents=True, exist_ok=True)
                    with content, (folder / place).open("wb") as file:
                        shutil.copyfileobj(content, file)
    except (tarfile.TarError, OSError):
        shutil.rmtree(folder)
        raise
    make_public(folder)


def content_digest(folder: Path) -> str:
    """Return a checksum over all files of a folder and their names."""
    total = hashlib.sha256()
    for path in sorted(each for each in folder.rglob("*") if not each.is_dir()):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{path.relative_to(folder).as_posix()}\0{digest}\n".encode())
    return total.hexdigest()
