"""What keeps one client, or all of them, from taking more than there is: memory, requests and events a second."""

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.lineage.gateway.options import GatewayLimits
from penstock.lineage.gateway.refusal import Refusal
from penstock.loopback import neighbourhood

_ADDRESSES = 10_000
_RETRY_S = 1
_SHARE = 2
"""One address may have one of this many parts: bodies that it sends slowly keep nobody else out."""


class Buffer:
    """All that is being read or not acknowledged yet, in bytes and requests. Beyond it requests are refused, unread.

    Of both, one address has half at most, or one body.
    """

    def __init__(self, limits: GatewayLimits) -> None:
        self._limits = limits
        # One body that may be sent is never refused for its own size.
        self._bytes_of_one = max(limits.buffer_max_bytes // _SHARE, limits.inflated_max_bytes)
        self.bytes = 0
        self.requests = 0
        self._bytes_of: Counter[str] = Counter()
        self._requests_of: Counter[str] = Counter()

    @contextmanager
    def request(self, address: str) -> Iterator["Share"]:
        """Let one request in; what it holds is given back when it is answered."""
        whose = neighbourhood(address)
        if self.requests >= self._limits.requests_max:
            raise Refusal(503, "Too many requests are worked on; nothing was written", retry_after_s=_RETRY_S)
        if self._requests_of[whose] >= max(1, self._limits.requests_max // _SHARE):
            raise Refusal(503, "Too many requests come from this address; nothing was written", retry_after_s=_RETRY_S)
        self.requests += 1
        self._requests_of[whose] += 1
        share = Share(self, whose)
        try:
            yield share
        finally:
            self.requests -= 1
            self.bytes -= share.held
            # Unlike `-=` of one key, this keeps nothing of addresses that have gone.
            self._requests_of -= Counter([whose])
            self._bytes_of -= Counter({whose: share.held})

    def take(self, whose: str, size: int) -> None:
        """Hold some more for an address; raise `Refusal` if there is none left, or none for it."""
        if self.bytes + size > self._limits.buffer_max_bytes:
            raise Refusal(503, "The gateway's buffer is full; nothing was written", retry_after_s=_RETRY_S)
        if self._bytes_of[whose] + size > self._bytes_of_one:
            raise Refusal(
                503, "This address has half of the gateway's buffer; nothing was written", retry_after_s=_RETRY_S
            )
        self.bytes += size
        self._bytes_of[whose] += size


class Share:
    """What one request holds of the buffer."""

    def __init__(self, buffer: Buffer, whose: str) -> None:
        self._buffer = buffer
        self._whose = whose
        self.held = 0

    def take(self, size: int) -> None:
        """Hold some more; raise `Refusal` if there is none left."""
        self._buffer.take(self._whose, size)
        self.held += size


class Rate:
    """Events a second from one address. A batch larger than a second's worth passes, and is paid for afterwards."""

    def __init__(self, limits: GatewayLimits) -> None:
        self._per_s = limits.rate_events_per_s
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, address: str, events: int) -> None:
        """Count some events; raise `Refusal` if this address has sent too many before."""
        if self._per_s is None:
            return
        now = time.monotonic()
        left, before = self._left.pop(address, (self._per_s, now))
        left = min(self._per_s, left + (now - before) * self._per_s)
        enough = left > 0
        self._left[address] = (left - events if enough else left, now)
        if len(self._left) > _ADDRESSES:
            self._left.popitem(last=False)
        if not enough:
            raise Refusal(
                429,
                f"More than {self._per_s:g} events a second; nothing was written",
                retry_after_s=max(1, math.ceil(-left / self._per_s)),
            )
