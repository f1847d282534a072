"""Class data archives: classes that a JVM has parsed before, with which the next one starts sooner.

The JVM writes such an archive when it ends, which takes longer than one start saves; so it is made on request only. It
holds for one Java and one class path. The JVM checks that itself, and does without an archive that does not fit. It
does not check who wrote it, and runs what it finds there: an archive that somebody else could have written is not used.

Each place that jars are in has a folder of its own, with one archive, for they are large: a new one takes the place of
the one before, and those of places that are gone go with it.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import EnvironmentNotReady
from penstock.private import distrust_way, make_missing_public, make_private

_PLACE = "place"
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


def path_of(cache: Path, name: str, java: Path, place: Path, *known_by: object) -> Path:
    """Name the archive of a Java and the jars at a place, as of whatever else it depends on."""
    java = java.resolve()
    folder = cache / "classes" / f"{name}-{_digest(place)}"
    return folder / f"{_digest(java, java.stat().st_mtime_ns, *known_by)}.jsa"


def _digest(*known_by: object) -> str:
    return hashlib.sha256(" ".join(map(str, known_by)).encode()).hexdigest()[:16]


def using(path: Path) -> tuple[str, ...]:
    """Return the options by which a JVM uses the archive; none if there is none that can be trusted."""
    return (f"-XX:SharedArchiveFile={path}", *_QUIET) if is_own(path) else ()


def making(path: Path) -> tuple[str, ...]:
    """Return the options by which a JVM writes the archive when it ends."""
    return (f"-XX:ArchiveClassesAtExit={path}", *_QUIET)


def is_own(path: Path) -> bool:
    """Return whether a file and every folder on the way to it are this user's or root's, and nobody else's to write."""
    return path.is_file() and not path.is_symlink() and distrust_way(path) is None


@contextmanager
def being_made(path: Path, place: Path) -> Iterator[Path]:
    """Yield where a JVM is to write the archive, then put it in place whole, and remove outdated ones."""
    classes = path.parent.parent
    make_missing_public(classes.parent)
    make_private(classes)
    make_private(path.parent)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        yield made
        if not made.exists():
            raise EnvironmentNotReady("the JVM wrote no archive of its classes", safe="Everything works without")
        made.chmod(0o600)
        made.replace(path)
    (path.parent / _PLACE).write_text(str(place), encoding="utf-8")
    for outdated in path.parent.glob("*.jsa"):
        if outdated != path:  # a JVM that uses it keeps it until it ends
            outdated.unlink(missing_ok=True)
    for noted in classes.glob(f"*/{_PLACE}"):
        if not noted.parent.is_symlink() and not Path(noted.read_text(encoding="utf-8")).exists():
            shutil.rmtree(noted.parent, ignore_errors=True)
