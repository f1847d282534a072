"""Connectors from Maven, by their coordinates: fetched once, and locked by a checksum when they are added.

A connector that comes as a plugin archive is unpacked; any other is its jar with all that it needs. What the checksum
is over is every file, its name included. A worker finds a new one when it is started again.
"""

import shutil
import tempfile
from pathlib import Path

import orjson

from penstock.errors import EnvironmentNotReady, NotFound
from penstock.jvm.archives import content_digest, unpack
from penstock.jvm.jars import Jar, one_at_a_time, require_own, resolve_with_ivy
from penstock.private import make_missing_private, make_missing_public, make_public, write_private

_LOCK = "plugins.lock.json"


def ensure(coordinates: str, folder: Path, cache: Path) -> bool:
    """Have a connector in the folder `plugins` of Connect's folder; return whether it was not there.

    What was fetched once is kept in the cache, for other projects of this user.
    """
    place = _place(coordinates, folder)
    lock = _read_lock(folder)
    if place.exists() and lock.get(coordinates) == content_digest(place):
        return False
    make_missing_private(place.parent)
    kept = cache / f"plugin-{coordinates.replace(':', '__')}"
    if kept.exists():
        require_own(kept.rglob("*"), kept)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder) as scratch:
        fresh = Path(scratch) / "fresh"
        if not _is_kept(kept, lock.get(coordinates)):
            with one_at_a_time(cache, kept.name):
                if not _is_kept(kept, lock.get(coordinates)):
                    _fetch(coordinates, Path(scratch), kept)
        shutil.copytree(kept, fresh)
        digest = content_digest(fresh)
        if lock.get(coordinates, digest) != digest:
            raise EnvironmentNotReady(
                f"{coordinates} is not what it was when it was added: its checksum differs",
                safe="Nothing was started",
                fix=f"If that is meant, remove it from {folder / _LOCK}",
            )
        if place.exists():
            place.rename(Path(scratch) / "damaged")
        write_private(folder / _LOCK, orjson.dumps({**lock, coordinates: digest}, option=orjson.OPT_INDENT_2))
        fresh.rename(place)
    return True


def _is_kept(kept: Path, digest: str | None) -> bool:
    return kept.exists() and digest in (None, content_digest(kept))


def _place(coordinates: str, folder: Path) -> Path:
    _, name, version = coordinates.split(":")
    return folder / "plugins" / f"{name}-{version}"


def _read_lock(folder: Path) -> dict[str, str]:
    try:
        found: dict[str, str] = orjson.loads((folder / _LOCK).read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError:
        raise EnvironmentNotReady(
            f"{folder / _LOCK} is damaged", fix="Remove it, and plugins are locked again"
        ) from None
    return found


def _fetch(coordinates: str, scratch: Path, kept: Path) -> None:
    organisation, name, version = coordinates.split(":")
    archive = Jar(organisation=organisation, name=name, revision=version, classifier="plugin", type="tar.gz", sha256="")
    fetched = scratch / "fetched"
    complaint = resolve_with_ivy(archive.dependency(), scratch, lambda _steps: None, alone=True)
    if (scratch / archive.file_name).exists():
        unpack(scratch / archive.file_name, fetched)
        _keep(fetched, kept)
        return
    jar = archive.model_copy(update={"classifier": "", "type": "jar"})
    followed = jar.dependency().replace('transitive="false"', 'transitive="true"')
    complaint = resolve_with_ivy(followed, scratch, lambda _steps: None) if "reach" not in complaint else complaint
    if not (scratch / jar.file_name).exists():
        raise NotFound(f"the plugin {coordinates} could not be fetched ({complaint})", fix="Check its coordinates")
    fetched.mkdir()
    for path in scratch.glob("*.jar"):
        path.rename(fetched / path.name)
    _keep(fetched, kept)


def _keep(fetched: Path, kept: Path) -> None:
    """Put what was fetched into the cache, whole."""
    make_public(fetched)  # or the next worker would not trust it
    make_missing_public(kept.parent)
    with tempfile.TemporaryDirectory(prefix="plugin-", dir=kept.parent) as beside:
        shutil.copytree(fetched, Path(beside) / "new")
        if kept.exists():
            kept.rename(Path(beside) / "old")
        (Path(beside) / "new").rename(kept)
