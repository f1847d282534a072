"""Open dead letters, read once for many viewers: they are read again only after something was written."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.console.masks import Masks
from penstock.delivery.dead_letter import DeadLetter
from penstock.delivery.ledger import TOPIC as LEDGER_TOPIC
from penstock.delivery.selection import DEAD, Filter, Reason, reasons, select
from penstock.errors import FormatNotUnderstood
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.positions import bounds

MOST_LISTED = 1_000
_MOST_KEPT = 32


@dataclass(frozen=True)
class OpenLetters:
    """What a look at the letters found."""

    reasons: list[Reason]
    first: list[DeadLetter]
    """The first thousand."""
    left_out: list[str]


@dataclass(frozen=True)
class _Known:
    ends: object
    looked: OpenLetters


class Letters:
    """The dead letters of a cluster. One reader at a time; what did not change since is answered from memory."""

    def __init__(self, connection: Callable[[], Connection], admin: Callable[[], Admin], masks: Masks) -> None:
        self._connection = connection
        self._admin = admin
        self._masks = masks
        self._lock = threading.Lock()
        self._known: OrderedDict[Filter, _Known] = OrderedDict()

    def look(self, which: Filter) -> OpenLetters:
        """Return the open letters that fit, counted by reason, as they may be shown."""
        with self._lock:
            ends = (self._ends(which), self._masks.rules())
            known = self._known.get(which)
            # How long ago counts from now, so such an answer does not keep.
            if known is not None and known.ends == ends and not (which.since or which.until):
                return known.looked
            looked = self._read(which)
            self._known[which] = _Known(ends, looked)
            self._known.move_to_end(which)
            while len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
            return looked

    def select(self, which: Filter, on_unknown: Callable[[FormatNotUnderstood], None]) -> Iterator[DeadLetter]:
        """Return the open letters that fit by what may be shown of them: nobody finds out by asking what is hidden."""
        found = select(self._connection(), which, on_unknown)
        return (letter for letter in found if which.fits_error(self._masks.letter(letter)))

    def _ends(self, which: Filter) -> object:
        """Return what changes with every letter that is written or settled, and with topics that are recreated."""
        admin = self._admin()
        there = {each.topic for each in topics.list_topics(admin, internal=True)}
        wanted = [which.topic] if which.topic else sorted(name for name in there if name.endswith(DEAD))
        known = topics.identify(admin, [name for name in (*wanted, LEDGER_TOPIC) if name in there])
        partitions = [(name, number) for name, (_, numbers) in known.items() for number in numbers]
        return {name: topic_id for name, (topic_id, _) in known.items()}, bounds(admin, partitions)

    def _read(self, which: Filter) -> OpenLetters:
        left_out: list[str] = []

        def pass_over(error: FormatNotUnderstood) -> None:
            left_out.append(str(error))

        first: list[DeadLetter] = []

        def noted(letter: DeadLetter) -> DeadLetter:
            shown = self._masks.letter(letter)
            if len(first) < MOST_LISTED:
                first.append(shown)
            return shown

        counted = reasons(map(noted, self.select(which, pass_over)))
        return OpenLetters(counted, first, left_out)
