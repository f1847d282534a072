"""The events: one place that names them, says which logger they come from, and writes them as the transport does."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

ROOT_LOGGER = "penstock.lab.simulator"
TOPIC = "superhero.combat"
KEY = "game_id"
PARTITIONS = 4

Fields = dict[str, Any]


@dataclass(frozen=True, eq=False)
class EventKind:
    """A message, the logger that it goes to, and how serious it is."""

    message: str
    logger: str
    level: int = logging.INFO
    head: bytes = field(init=False)

    def __post_init__(self) -> None:
        """Write what is the same in every event of this kind."""
        same = {"level": logging.getLevelName(self.level), "logger": self.logger, "message": self.message}
        object.__setattr__(self, "head", b'Z",' + orjson.dumps(same)[1:-1] + b",")


MODULES = ("lobby", "game")
_LOBBY, _GAME = (f"{ROOT_LOGGER}.{each}" for each in MODULES)

MATCH_STARTED = EventKind("Match Started", _LOBBY)
HERO_SELECTED = EventKind("Hero Selected", _LOBBY)
GAME_TIMED_OUT = EventKind("Game Timed Out", _LOBBY)
ATTACK_COMPLETED = EventKind("Attack Completed", _GAME)
TURN_MISSED = EventKind("Turn Missed", _GAME)
ATTACKED_DEAD_ENEMY = EventKind("Attacked Dead Enemy", _GAME, logging.ERROR)
MATCH_ENDED = EventKind("Match Ended", _GAME)

Event = tuple[EventKind, Fields]
Publish = Callable[[EventKind, Fields], None]


def log(kind: EventKind, fields: Fields) -> None:
    """Log an event; the handlers of `penstock.lab.simulator` carry it on."""
    logging.getLogger(kind.logger).log(kind.level, kind.message, extra=fields)


_second = 0
_second_text = b""


def encode(kind: EventKind, fields: Fields) -> bytes:
    """Write an event, at this moment, with the fields that the logging transport gives it."""
    global _second, _second_text  # the date is written once a second, not once an event
    second, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    if second != _second:
        _second, _second_text = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second)).encode()
    return b'{"at":"%b.%06d%b%b' % (_second_text, nanoseconds // 1000, kind.head, orjson.dumps(fields)[1:])
