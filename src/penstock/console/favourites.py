"""The topics that people of a console want to see first, kept beside its users for the next console, too."""

import threading
from pathlib import Path

import orjson

from penstock.delivery.durable import locked
from penstock.errors import Conflict
from penstock.private import make_missing_private, write_private

_MOST = 200


class Favourites:
    """Favourites by who has them and by cluster; without sign-in everybody has the same ones."""

    def __init__(self, folder: Path) -> None:
        self._file, self._held = folder / "favourites.json", folder / "favourites.lock"
        self._lock = threading.Lock()

    def of(self, who: str, cluster: str) -> set[str]:
        """Return somebody's favourites; the project's own cluster has no name."""
        return set(self._read().get(who, {}).get(cluster, ()))

    def put(self, who: str, topic: str, cluster: str) -> None:
        """Add a topic to somebody's favourites; it may be deleted later."""
        self._change(who, topic, cluster, is_one=True)

    def remove(self, who: str, topic: str, cluster: str) -> None:
        """Remove a topic from the favourites."""
        self._change(who, topic, cluster, is_one=False)

    def _change(self, who: str, topic: str, cluster: str, *, is_one: bool) -> None:
        make_missing_private(self._file.parent)
        with self._lock, locked(self._held):  # another console of this home folder may do the same
            kept = self._read()
            mine = set(kept.get(who, {}).get(cluster, ()))
            changed = mine | {topic} if is_one else mine - {topic}
            if len(changed) > _MOST:
                raise Conflict(f"there are {_MOST} favourites already", fix="Remove one of them first")
            if changed != mine:
                write_private(self._file, orjson.dumps({**kept, who: {**kept.get(who, {}), cluster: sorted(changed)}}))

    def _read(self) -> dict[str, dict[str, list[str]]]:
        try:
            found: dict[str, dict[str, list[str]]] = orjson.loads(self._file.read_bytes())
        except (FileNotFoundError, orjson.JSONDecodeError):
            return {}
        return found
