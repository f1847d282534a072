"""A logging handler that sends records as JSON events, and makes the program wait only if it is configured to.

```python from penstock.logging import log_to

log_to("kafka://127.0.0.1:9092", topic="app.logs")
```

Guarantees. `emit` only takes a snapshot of the record into a bounded buffer; a thread of its own encodes and sends, in
the order of logging. While the server is away events wait in the buffer and are sent when it is back. They may arrive
twice when a connection breaks in the middle, and are lost when the process is killed or the server stays away past
`flush_timeout_s` at exit. When the buffer is full `when_full` decides; what is dropped is counted, reported on stderr
and as an event of its own. What cannot be written or sent is dropped alone. A child process sends its own records,
including the last one if it is a child of `multiprocessing`; those from before the fork are the parent's.
"""

import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Self

from pydantic import BaseModel, Field, ValidationError

from penstock.config.complaints import in_words
from penstock.errors import BadInput, RecordsRefused, one_line
from penstock.logging.buffer import Buffer, WhenFull
from penstock.logging.context import current
from penstock.logging.event import Event, encode, snapshot
from penstock.transports.address import opener, parse
from penstock.transports.transport import Outgoing, Transport
from penstock.wording import nearest

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0
_JOIN_S = 2.0
_COMPLAIN_EVERY_S = 30.0
# A short outage is no news: what is in the buffer arrives.
_COMPLAIN_AFTER_S = 10.0
_JUST_NOW_S = 0.5

# Threads that send. What their clients log must not be sent in turn, by this handler or another.
_senders: set[int] = set()


class _Stderr(logging.StreamHandler[Any]):
    """Writes to what sys.stderr is at that moment."""

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, value: Any) -> None:
        """Leave it: there is nothing to keep."""


_complaints = logging.getLogger("penstock.logging.complaints")
_complaints.propagate = False
_complaints.addHandler(_Stderr())
_complaints.handlers[0].setFormatter(logging.Formatter("penstock: %(message)s"))


class HandlerOptions(BaseModel, frozen=True, extra="forbid"):
    """How a handler sends."""

    topic: str = Field(min_length=1, description="Topic that events go to.")
    key: str | None = Field(None, description="Extra or context field whose value is the key: order is kept per key.")
    when_full: WhenFull = Field(
        "drop_oldest", description="When the buffer is full: block the program, drop the oldest or drop the newest."
    )
    buffer_events: int = Field(10_000, ge=1, description="Events that may wait in memory.")
    batch_events: int = Field(500, ge=1, description="Events that are sent together.")
    linger_s: float = Field(0.02, ge=0, le=60, description="How long a batch waits for more events.")
    flush_timeout_s: float = Field(5.0, ge=0, description="How long the program's exit waits for what is left.")


class EventHandler(logging.Handler):
    """Sends every record through a transport, which `connect` opens in the handler's own thread.

    `sent` and `dropped` count; with those in the buffer they add up to what was logged. `flush` waits, at most for
    `flush_timeout_s`; logging calls it and `close` when the program ends. As a context it ends sooner: leaving the
    block gives the logger back as it was, and closes.
    """

    def __init__(
        self, connect: Callable[[], Transport], options: HandlerOptions, *, server: str = "the server"
    ) -> None:
        super().__init__()
        self.options = options
        self._connect = connect
        self._server = server
        self._closed = False
        self._attached: list[tuple[logging.Logger, int]] = []
        self._begin()
        self._start()
        _handlers.add(self)

    def _begin(self) -> None:
        self._buffer = Buffer(self.options.buffer_events, self.options.when_full)
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._reason = ""
        self._failing_since: float | None = None
        self._gave_up_at = float("-inf")
        self._complained_at = float("-inf")
        self._complained_of = 0

    @property
    def sent(self) -> int:
        """How many events the server has accepted."""
        return self._buffer.sent

    @property
    def dropped(self) -> int:
        """How many events were dropped because the buffer was full, the handler closed or the server refused them."""
        return self._buffer.dropped

    def attach(self, logger: logging.Logger) -> None:
        """Take the records of a logger; one that is stricter than the handler is set to the handler's level."""
        self._attached.append((logger, logger.level))
        if logger.getEffectiveLevel() > self.level:
            logger.setLevel(self.level)
        logger.addHandler(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for logger, level in self._attached:
            logger.removeHandler(self)
            logger.setLevel(level)
        self._attached.clear()
        self.close()

    def createLock(self) -> None:  # noqa: N802 - logging's name
        """Have no lock: the buffer has its own, and a thread blocked in `emit` must not keep the exit from closing."""
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Emit a record that the filters let pass."""
        passed: Any = self.filter(record)
        if passed:
            # From Python 3.12 on a filter may give another record in place of this one.
            self.emit(passed if isinstance(passed, logging.LogRecord) else record)
        return bool(passed)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a snapshot into the buffer."""
        if threading.get_ident() in _senders:
            return
        try:
            self._buffer.put(snapshot(record, current(), self.options.key))
            # In a forked child, where it would be needless before the first record.
            if self._thread is None and not self._closed:
                self._start()
        except Exception:  # noqa: BLE001 - as every handler: the record's own arguments may be at fault
            self._buffer.drop()
            self.handleError(record)

    def _start(self) -> None:
        _close_with_a_child()
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, args=(self._buffer,), name="penstock-log-sender", daemon=True
                )
                self._thread.start()

    def _work(self, buffer: Buffer) -> None:
        # The transport is in this frame and nowhere else: a forked child then never touches the parent's connection.
        transport: Transport | None = None
        pause_s = _FIRST_PAUSE_S
        _senders.add(threading.get_ident())
        try:
            while buffer.wait_for_work(self.options.batch_events, self.options.linger_s):
                try:
                    transport = transport or self._connect()
                    self._send(transport, buffer)
                except Exception as failure:  # noqa: BLE001 - whatever it is, the events are kept and tried again
                    buffer.put_back()
                    self._note(failure)
                    buffer.pause(pause_s)
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                else:
                    self._failing_since = None
                    pause_s = _FIRST_PAUSE_S
                self._complain_if_due()
            if transport is not None:
                transport.close()
        except Exception as failure:  # noqa: BLE001 - only closing is left, and nothing depends on it
            self._note(failure)
        finally:
            _senders.discard(threading.get_ident())

    def _send(self, transport: Transport, buffer: Buffer) -> None:
        dropped = buffer.unreported
        notice = Event(time.time(), "WARNING", __name__, "Log Records Dropped", {"dropped": dropped})
        taken = buffer.take(self.options.batch_events)
        events = [*([notice] if dropped else []), *taken]
        outgoing = {number: each for number, event in enumerate(events) if (each := self._encoded(event)) is not None}
        accepted = self._send_all(transport, outgoing) if outgoing else set()
        # A notice that is refused is not announced in turn: that would never end.
        first = len(events) - len(taken)
        refused = len(taken) - sum(number >= first for number in accepted)
        buffer.settle(refused=refused, reported=dropped)

    def _encoded(self, event: Event) -> Outgoing | None:
        try:
            return Outgoing(self.options.topic, encode(event), event.key)
        except Exception as failure:  # noqa: BLE001 - whatever is wrong with it, it must not hold up the others
            self._reason = f"a record cannot be written as JSON: {failure}"
            return None

    def _send_all(self, transport: Transport, outgoing: dict[int, Outgoing]) -> set[int]:
        """Return the numbers of those that were accepted. What can never be taken must not hold up the others."""
        numbers = list(outgoing)
        try:
            transport.send(list(outgoing.values()))
        except RecordsRefused as refusal:
            self._reason = str(refusal)
            return set(numbers) - {numbers[each] for each in refusal.refused}
        except (BadInput, ValueError, TypeError) as refusal:
            # Whose fault it is, is not said.
            self._reason = str(refusal)
            if len(outgoing) == 1:
                return set()
            return {number for number in numbers if self._send_all(transport, {number: outgoing[number]})}
        return set(numbers)

    def _note(self, failure: Exception) -> None:
        self._reason = str(failure) or type(failure).__name__
        self._failing_since = self._failing_since or time.monotonic()

    def _complain_if_due(self) -> None:
        """Say on stderr that records are dropped or held up; seldom, for stderr may be all that the program has."""
        now = time.monotonic()
        fresh = self._buffer.dropped - self._complained_of
        away = self._failing_since is not None and now - self._failing_since > _COMPLAIN_AFTER_S
        if not self._closed and (fresh or away) and now - self._complained_at > _COMPLAIN_EVERY_S:
            self._complained_at = now
            self._complain(fresh, f"{self._buffer.left} wait" if away else "")

    def _complain(self, dropped: int, rest: str) -> None:
        self._complained_of += dropped
        parts = [f"{dropped} were dropped" if dropped else "", rest]
        reason = f" ({one_line(self._reason)})" if self._reason else ""
        _complaints.warning("log records to %s: %s%s", self._server, ", ".join(filter(None, parts)), reason)

    def flush(self) -> None:
        """Wait until everything logged so far is sent, at most for `flush_timeout_s`."""
        if self._thread is not None and not self._buffer.drain(self.options.flush_timeout_s):
            self._gave_up_at = time.monotonic()

    def close(self) -> None:
        """Flush, say what could not be sent, and stop. Whoever is blocked in `emit` goes on."""
        if not self._closed:
            self._closed = True
            # At exit logging calls `flush` just before: its patience is not spent twice.
            if time.monotonic() - self._gave_up_at > _JUST_NOW_S:
                self.flush()
            left = self._buffer.left
            fresh = self._buffer.dropped - self._complained_of
            if left or fresh:
                self._complain(
                    fresh,
                    f"{left} {'was' if left == 1 else 'were'} not sent within {self.options.flush_timeout_s:g} s"
                    if left
                    else "",
                )
            self._buffer.close()
            if self._thread is not None and not left:
                self._thread.join(_JOIN_S)
        super().close()

    def after_fork(self) -> None:
        """Start over in a child process: the thread and the records of before are the parent's."""
        self._begin()


_handlers: "weakref.WeakSet[EventHandler]" = weakref.WeakSet()


# Processes whose end has been told to close the handlers.
_closing_in: set[int] = set()


def _close_with_a_child() -> None:
    """Have the handlers closed when a child of `multiprocessing` ends.

    It ends by `os._exit`, past `atexit` and so past logging's own end; what it does run is finalizers of its own.
    """
    processes, finalizers = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if processes is None or finalizers is None or processes.parent_process() is None or os.getpid() in _closing_in:
        return
    _closing_in.add(os.getpid())
    # The last of all: other finalizers may log.
    finalizers.Finalize(None, _close_all, exitpriority=-1000)


def _close_all() -> None:
    for handler in list(_handlers):
        handler.close()


def _start_over() -> None:
    _senders.clear()
    for handler in _handlers:
        handler.after_fork()


os.register_at_fork(after_in_child=_start_over)


def _require_level(level: int | str) -> None:
    """Raise `BadInput` for a level that logging does not know, before anything is opened."""
    known = logging.getLevelNamesMapping()
    if isinstance(level, str) and level not in known:
        meant = nearest(level.upper(), known)
        hint = f"Did you mean '{meant}'?" if meant else f"There are {', '.join(known)}"
        raise BadInput(f"there is no level '{one_line(level)}'", fix=hint)


def log_to(
    address: str,
    *,
    topic: str,
    logger: logging.Logger | str | None = None,
    level: int | str = logging.INFO,
    **options: Any,
) -> EventHandler:
    """Send the records of a logger, the root one by default, to a topic; return the handler, which is also a context.

    `options` are those of `HandlerOptions`. A logger that is stricter than `level` is set to it. The server need not be
    there yet: an address that cannot be used raises `BadInput`, a server that is away does not.
    """
    known = parse(address)
    _require_level(level)
    try:
        chosen = HandlerOptions(topic=topic, **options)
    except ValidationError as error:
        problem = error.errors(include_input=False)[0]
        name = ".".join(map(str, problem["loc"]))
        meant = nearest(name, HandlerOptions.model_fields) if problem["type"] == "extra_forbidden" else None
        hint = f"; did you mean '{meant}'?" if meant else ""
        raise BadInput(f"{name}: {in_words(problem)}{hint}") from None
    handler = EventHandler(opener(known), chosen, server=str(known))
    handler.setLevel(level)
    handler.attach(logger if isinstance(logger, logging.Logger) else logging.getLogger(logger))
    return handler
