"""What keeps one client, or all of them, from taking more than there is: memory, requests and events a second."""

import math
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.lineage.gateway.options import GatewayLimits
from penstock.lineage.gateway.refusal import Refusal

_ADDRESSES = 10_000
_RETRY_S = 1


class Buffer:
    """All that is being read or not acknowledged yet, in bytes and requests. Beyond it requests are refused, unread."""

    def __init__(self, limits: GatewayLimits) -> None:
        self._limits = limits
        self.bytes = 0
        self.requests = 0

    @contextmanager
    def request(self) -> Iterator["Share"]:
        """Let one request in; what it holds is given back when it is answered."""
        if self.requests >= self._limits.requests_max:
            raise Refusal(503, "Too many requests are worked on; nothing was written", retry_after_s=_RETRY_S)
        self.requests += 1
        share = Share(self, self._limits.buffer_max_bytes)
        try:
            yield share
        finally:
            self.requests -= 1
            self.bytes -= share.held


class Share:
    """What one request holds of the buffer."""

    def __init__(self, buffer: Buffer, max_bytes: int) -> None:
        self._buffer = buffer
        self._max_bytes = max_bytes
        self.held = 0

    def take(self, size: int) -> None:
        """Hold some more; raise `Refusal` if there is none left."""
        if self._buffer.bytes + size > self._max_bytes:
            raise Refusal(503, "The gateway's buffer is full; nothing was written", retry_after_s=_RETRY_S)
        self._buffer.bytes += size
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
