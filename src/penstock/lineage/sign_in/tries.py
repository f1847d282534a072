"""Failed tries to sign in, which make the next one wait."""

import threading
from collections import OrderedDict

from penstock.clock import clock
from penstock.loopback import neighbourhood

_FREE = 3
_LONGEST_WAIT_S = 60.0
_MOST_NAMES = 10_000
_MOST_DOUBLINGS = 10


class Tries:
    """After three failures in a row a name waits 1, 2, 4 and up to 60 seconds; until then its password is not checked.

    A name waits at the address that it failed from: strangers elsewhere keep nobody out. Addresses that one client can
    choose from are one: all of this machine, and those of a network of IPv6.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()
        """By name and address: failures in a row, and until when it waits. Bounded: the oldest goes."""

    def begin(self, name: str, address: str) -> float:
        """Return how many seconds a name has to wait; if none, this try counts as failed until it has succeeded.

        Tries that come at once are so counted one after the other.
        """
        who = name, neighbourhood(address)
        with self._lock:
            now = clock().monotonic()
            count, until = self._failed.pop(who, (0, 0.0))
            if until <= now:
                count += 1
                beyond = count - _FREE
                until = now + (0.0 if beyond < 0 else min(_LONGEST_WAIT_S, 2.0 ** min(beyond, _MOST_DOUBLINGS)))
                wait_s = 0.0
            else:
                wait_s = until - now
            self._failed[who] = (count, until)
            if len(self._failed) > _MOST_NAMES:
                self._failed.popitem(last=False)
        return wait_s

    def succeeded(self, name: str, address: str) -> None:
        """Forget the failures of a name."""
        with self._lock:
            self._failed.pop((name, neighbourhood(address)), None)

    def not_looked_at(self, name: str, address: str) -> None:
        """Take back a try that came to nothing; the failures before it count as they did."""
        who = name, neighbourhood(address)
        with self._lock:
            count, _ = self._failed.get(who, (0, 0.0))
            if count > 1:
                self._failed[who] = (count - 1, clock().monotonic())
            else:
                self._failed.pop(who, None)
