"""The events that every broker gets: superhero games, each event with a number that tells it from all others."""

import itertools
from collections.abc import Iterable

import orjson

from penstock.lab.simulator.events import encode
from penstock.lab.simulator.load import play_out
from penstock.lab.simulator.plan import plan
from penstock.transports import Incoming, Outgoing

_PLAYERS = 1000
_SEED = 1
_MISTAKES = 0.02
_NO_EVENT = itertools.count(-1, -1)


class GameEvents:
    """This many events of played games; numbers beyond that begin with the first event again, under a new number."""

    def __init__(self, count: int) -> None:
        bodies: list[tuple[str, bytes]] = []
        # Every game has more than one event.
        for planned in plan(_PLAYERS, count, _SEED):
            game = play_out(planned, mistakes=_MISTAKES)
            bodies += [(planned.game_id, encode(kind, fields)[:-1]) for kind, fields in game.take_events()]
            if len(bodies) >= count:
                break
        self._bodies = bodies[:count]

    def __len__(self) -> int:
        return len(self._bodies)

    def message(self, topic: str, number: int, due_ns: int | None = None) -> Outgoing:
        """Return one event; `due_ns` is the moment, by the monotonic clock, at which it should have been sent."""
        key, body = self._bodies[number % len(self._bodies)]
        due = b"" if due_ns is None else b',"due_ns":%d' % due_ns
        return Outgoing(topic, b'%b,"number":%d%b}' % (body, number, due), key)

    def messages(self, topic: str, numbers: Iterable[int]) -> list[Outgoing]:
        """Return events by their numbers."""
        return [self.message(topic, number) for number in numbers]

    @property
    def mean_bytes(self) -> int:
        """Bytes of an event, on the average."""
        return round(sum(len(self.message("", number).value) for number in range(len(self))) / len(self))


def marker(topic: str) -> Outgoing:
    """Return a message that is no event and like no other: whoever gets it hears."""
    return Outgoing(topic, b'{"number":%d}' % next(_NO_EVENT), "marker")


def is_event(number: int) -> bool:
    """Return whether this is an event, and no marker."""
    return number >= 0


def number_of(message: Incoming) -> int:
    """Read the number of what arrived."""
    return int(orjson.loads(message.value)["number"])
