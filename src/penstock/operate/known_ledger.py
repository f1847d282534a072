"""Which ledger of dead letters was used from this home folder: a deleted one must not look like an empty one."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from penstock.delivery.durable import read_versioned, write_versioned
from penstock.delivery.ledger import TOPIC
from penstock.errors import Conflict, NotFound
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.cluster import cluster_id
from penstock.record.formats import LEDGER

if TYPE_CHECKING:
    from penstock.config.settings import Settings


class _Known(BaseModel, frozen=True):
    """The ledgers that were used from a home folder."""

    topic_ids: dict[str, str] = Field(default={}, description="By the cluster's id, the id of the ledger's topic.")


def require_same_ledger(settings: "Settings") -> None:
    """Raise `Conflict` if the ledger is not the one that letters were settled in from this home folder."""
    admin = Admin(settings.connection())
    known = _read(settings).topic_ids.get(cluster_id(admin))
    if known is not None and known != _topic_id(admin):
        raise Conflict(
            f"the topic '{TOPIC}', which says what became of dead letters, was deleted or recreated: letters that were"
            " replayed or discarded look open again, and rows would be doubled",
            safe="Nothing was changed",
            fix="Discard those that were settled before, by time for instance (penstock dead discard --until ...); the"
            " others count as open after that",
        )


def note_ledger(settings: "Settings") -> None:
    """Record which ledger letters were settled in."""
    admin = Admin(settings.connection())
    known, cluster = _read(settings), cluster_id(admin)
    found = _topic_id(admin)
    if found and known.topic_ids.get(cluster) != found and settings.home_folder.is_dir():
        noted = _Known(topic_ids={**known.topic_ids, cluster: found})
        write_versioned(_path(settings), LEDGER, noted.model_dump())


def _path(settings: "Settings") -> Path:
    return settings.home_folder / "ledger.json"  # which need not be there: whoever only looks makes no folder


def _read(settings: "Settings") -> _Known:
    with suppress(FileNotFoundError, ValueError):  # one that is damaged only notices less
        return _Known.model_validate(read_versioned(_path(settings), LEDGER))
    return _Known()


def _topic_id(admin: Admin) -> str:
    try:
        return topics.identify(admin, [TOPIC])[TOPIC][0]
    except NotFound:
        return ""
