"""Runs a class of handlers over one offset range of one partition.

Messages enter in order, wait in the batch of their batcher and key, and leave in order: a chunk goes on once each of
its messages is settled, so rows reach the sinks as they stood in the partition, however the batches mixed them.
"""

import sys
import time
import traceback
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from penstock.clock import clock
from penstock.errors import BadInput, PenstockError
from penstock.record.columns import ERROR, SUMMARY, user_columns, whole_rows
from penstock.record.decoded import RecordError, columns_of, record_error
from penstock.record.manifest import TaskSummary
from penstock.steps.code_line import in_brackets
from penstock.steps.fitting import requirement
from penstock.steps.handlers import Handlers
from penstock.steps.message import BatchInfo, Message
from penstock.steps.step import StepContext
from penstock.steps.user_code import HANDLERS, NoteFile, UserTask, error_from

STAGE = "handler"


@dataclass
class _Chunk:
    """Rows that came together, and go on together."""

    rows: pa.RecordBatch
    messages: list[Message]
    waiting: int = 0


@dataclass
class _Bucket:
    """A batch that is being gathered."""

    members: list[tuple[Message, _Chunk, int]] = field(default_factory=list)
    size_bytes: int = 0
    must_flush: bool = False


class HandlersTask(UserTask):
    """What travels to the tasks; each makes an instance of the class of its own."""

    notes_suffix = HANDLERS

    def __init__(self, spec: Handlers, columns: pa.Schema, context: StepContext) -> None:
        super().__init__(spec.handlers, columns, context)
        self._spec = spec

    def load(self) -> Any:
        """Make an instance of the class; failing to make one is a mistake in the pipeline, not in a message."""
        kind = super().load()
        try:
            return kind()
        except PenstockError:
            raise
        except Exception as error:  # noqa: BLE001 - a constructor of the user's may raise anything
            found = error_from(error, STAGE)
            reason = f"{found['error']}: {found['message']}{in_brackets(found.get('line'))}"
            raise BadInput(f"'{self._spec.handlers}' cannot be made: {reason}") from None

    def run(self, loaded: Any, batches: Iterator[pa.RecordBatch], note_file: NoteFile) -> Iterator[pa.RecordBatch]:
        """Yield each chunk with what the handlers made of it, and at the end one row of summary."""
        handling = _Handling(self._spec, self._columns, self.schema, loaded, note_file)
        for batch in batches:
            # Once told to stop, what is left is read to its end, for Spark expects that, and goes nowhere.
            if handling.stopped is None:
                yield from handling.chunk(batch)
        if handling.stopped is None:
            yield from handling.finish()
        yield handling.summary().row(self.schema)


class _Handling:
    def __init__(
        self, spec: Handlers, columns: pa.Schema, schema: pa.Schema, handlers: Any, note_file: NoteFile
    ) -> None:
        self._spec = spec
        self._columns = columns
        self._schema = schema
        self._handlers = handlers
        self._notebook = note_file
        self._names = [name for name in columns.names if name != spec.batcher_column]
        self._require_fitting = requirement(columns)
        self._chunks: deque[_Chunk] = deque()
        self._buckets: dict[tuple[str, Any], _Bucket] = {}
        self._counts: Counter[str] = Counter()
        self._batches: dict[str, Counter[str]] = {name: Counter() for name in spec.batchers}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self.stopped: tuple[int, str] | None = None

    def summary(self) -> TaskSummary:
        """Return the counts, and where it stopped if it did."""
        seconds = {name: round(value, 6) for name, value in self._seconds.items()}
        counts = {**self._counts, "batches": self._batches, "seconds": seconds}
        return TaskSummary(handlers=counts, stopped=self.stopped)

    def chunk(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take the next rows; return those that are done."""
        summaries = pc.fill_null(pc.equal(pc.struct_field(batch.column("_error"), "stage"), SUMMARY), False)  # noqa: FBT003
        passing, rows = batch.filter(summaries), batch.filter(pc.invert(summaries))
        if passing.num_rows:
            blank = [pa.nulls(passing.num_rows, each.type) for each in self._columns]
            yield whole_rows(blank, passing, passing.column("_error"), self._schema)
        if not rows.num_rows:
            return
        chunk = _Chunk(rows, _messages(rows))
        self._chunks.append(chunk)
        self._handle(chunk)
        yield from self._released()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Handle what is left in the batchers: nothing is kept across jobs."""
        for key in list(self._buckets):
            if self.stopped is None:
                self._batch(key, "flush")
        yield from self._released()

    def _handle(self, chunk: _Chunk) -> None:
        offsets = chunk.rows.column("_at").to_pylist()
        good = [message for message in chunk.messages if message.is_good]
        failed: list[Message] = []
        self._counts["messages"] += len(good)
        self._notebook.note(None)
        self._all(good, "prepare_messages", good)
        for number, message in enumerate(chunk.messages):
            gathered = False
            if message.is_good and self.stopped is None:
                self._notebook.note(offsets[number])
                self._one(message)
                if message.is_good and self._spec.batchers:
                    gathered = self._gather(message, chunk, offsets[number])
            self._stop_if_required(message, offsets[number])
            # Of one that went into a batch, which may be through by now, the batch says.
            if message.error is not None and not gathered:
                failed.append(message)
        self._failed(failed)
        for key in [key for key, bucket in self._buckets.items() if bucket.must_flush]:
            if self.stopped is None:
                self._batch(key, "flush")

    def _one(self, message: Message) -> None:
        began = time.perf_counter()
        try:
            _require_same(message, self._called("handle_message", [message], message))
        except PenstockError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a user's handler raises is that message's fault
            message.error, message.is_dropped = error_from(error, STAGE), False
        self._seconds["handle_message"] += time.perf_counter() - began

    def _gather(self, message: Message, chunk: _Chunk, offset: int) -> bool:
        """Put a message into the batch of its batcher and key; return whether there is one."""
        name = message.batcher
        batcher = self._spec.batchers.get(name) if isinstance(name, str) else None
        if batcher is None:
            shown = name if isinstance(name, str) else type(name).__name__
            message.error = record_error("UnknownBatcher", f"there is no batcher '{shown}'", STAGE)
            return False
        key = (name, message.batch_key)
        try:
            bucket = self._buckets.setdefault(key, _Bucket())
        except Exception:  # noqa: BLE001 - a key of the user's own may raise anything when it is hashed or compared
            message.error = record_error(
                "TypeError", "a batch key must be hashable: a string, a number, a tuple", STAGE
            )
            return False
        bucket.members.append((message, chunk, offset))
        bucket.size_bytes += len(message.value) if isinstance(message.value, bytes) else 0
        bucket.must_flush |= message.batch_mode == "flush"
        chunk.waiting += 1
        if len(bucket.members) >= batcher.batch_size:
            self._batch(key, "size")
        elif batcher.max_bytes is not None and bucket.size_bytes >= batcher.max_bytes:
            self._batch(key, "bytes")
        return True

    def _batch(self, key: tuple[str, Any], trigger: Literal["size", "bytes", "flush"]) -> None:
        members = self._buckets.pop(key).members
        messages = [message for message, _, _ in members]
        self._notebook.note(members[0][2] if len(members) == 1 else None)
        info = BatchInfo(*key, partition=messages[0].partition, size=len(messages), trigger=trigger)
        self._batches[key[0]][trigger] += 1
        self._all(messages, "handle_batch", key[0], messages, info)
        for message, chunk, offset in members:
            chunk.waiting -= 1
            self._stop_if_required(message, offset)
        self._failed([message for message in messages if message.error is not None])

    def _all(self, messages: list[Message], handler: str, *arguments: Any) -> None:
        """Call a handler on many at once; if it raises, or loses one of them, all of them fail."""
        if not messages:
            return
        began = time.perf_counter()
        try:
            _require_all(handler, messages, self._called(handler, messages, *arguments))
        except PenstockError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            found = error_from(error, STAGE)
            for message in messages:
                message.error, message.is_dropped = message.error or found, False
        self._seconds[handler] += time.perf_counter() - began

    def _called(self, name: str, messages: list[Message], *arguments: Any) -> Any:
        """Call a handler, and retry it if configured.

        An outage that it raises as `Transient` does not fail a message.
        """
        handler: Callable[..., Any] | None = getattr(self._handlers, name, None)
        if handler is None:
            return arguments[1] if name == "handle_batch" else arguments[0]
        policy = self._spec.on_failure
        pause_ms: float = policy.backoff
        kept = _kept(messages) if policy.then == "retry" else None
        for left in reversed(range(policy.attempts if kept is not None else 1)):
            try:
                # A list of the handler's own: what it does to it must not change what is looked at afterwards.
                return handler(*(list(each) if each is messages else each for each in arguments))
            except PenstockError:
                raise
            except Exception:
                if not left or kept is None:
                    raise
                for message, before in zip(messages, kept, strict=True):  # each attempt begins with the same data
                    message.put_back(before)
                self._counts["retries"] += 1
                clock().sleep(min(pause_ms, policy.max_backoff) / 1000)
                pause_ms *= policy.growth
        raise AssertionError

    def _stop_if_required(self, message: Message, offset: int) -> None:
        if self._spec.on_failure.then == "stop" and self.stopped is None:
            problem = message.error
            if problem is not None and problem["stage"] == STAGE:
                self.stopped = (offset, f"{problem['error']}: {problem['message']}{in_brackets(problem.get('line'))}")

    def _failed(self, messages: list[Message]) -> None:
        """Pass failed messages to `handle_failed`, which may drop one or change its reason; they remain failed."""
        self._counts["failed"] += len(messages)
        handler: Callable[..., Any] | None = getattr(self._handlers, "handle_failed", None)
        if handler is None or not messages:
            return
        before = [message.error for message in messages]
        self._notebook.note(None)
        try:
            handler(list(messages))
        except PenstockError:
            raise
        except Exception:  # noqa: BLE001 - they stay what they are, dead letters
            self._counts["handle_failed_raised"] += 1
            traceback.print_exc(file=sys.stderr)
        for message, found in zip(messages, before, strict=True):
            message.error = message.error or found

    def _released(self) -> Iterator[pa.RecordBatch]:
        """Return the leading chunks whose messages are all settled."""
        while self._chunks and not self._chunks[0].waiting:
            chunk = self._chunks.popleft()
            good = [message for message in chunk.messages if message.is_good]
            results = [self._row(message) for message in chunk.messages]
            record_errors: list[RecordError | None] = [message.error for message in chunk.messages]
            columns = columns_of(self._columns, results, record_errors, [], STAGE).columns
            for message, found in zip(chunk.messages, record_errors, strict=True):
                message.error = found
            offsets = chunk.rows.column("_at").to_pylist()
            for message, offset in zip(chunk.messages, offsets, strict=True):
                self._stop_if_required(message, offset)
            self._failed([message for message in good if message.error is not None])
            whole = whole_rows(
                columns, chunk.rows, pa.array([each.error for each in chunk.messages], ERROR), self._schema
            )
            self._counts["dropped"] += sum(1 for message in chunk.messages if message.is_dropped)
            yield whole.filter(pa.array([not message.is_dropped for message in chunk.messages]))

    def _row(self, message: Message) -> tuple[Any, ...]:
        """Return a good message's columns; if they do not fit, that is a failure of its own."""
        blank = (None,) * len(self._columns)
        if not message.is_good:
            return blank
        try:
            values = tuple(map(message.data.get, self._names))
            values = (*values, message.batcher) if self._spec.batcher_column else values
            self._require_fitting(values)
        except Exception as error:  # noqa: BLE001 - data is whatever the handlers made of it
            message.error = error_from(error, STAGE)
            return blank
        return values


def _kept(messages: list[Message]) -> list[dict[str, Any]] | None:
    """Keep copies of messages before they are handled; None if they cannot be copied, and so not retried."""
    try:
        return [message.kept() for message in messages]
    except Exception:  # noqa: BLE001 - data is whatever the handlers made of it
        return None


def _require_same(message: Message, given: Any) -> None:
    if given is not message:
        kind = type(given).__name__
        raise TypeError(f"handle_message returned {kind}: return the message, or message.drop()")


def _require_all(handler: str, messages: list[Message], given: Any) -> None:
    """Raise unless all messages are there: one that a handler forgets would be skipped silently."""
    if not isinstance(given, list):
        raise TypeError(f"{handler} returned {type(given).__name__}: return the list of messages")
    if {id(each) for each in given} != {id(each) for each in messages}:
        raise TypeError(
            f"{handler} got {len(messages)} messages and returned {len(given)}, or others: return them all;"
            " message.drop() leaves one out"
        )


def _messages(rows: pa.RecordBatch) -> list[Message]:
    data = rows.select(user_columns(rows.schema.names)).to_pylist(maps_as_pydicts="strict")
    reserved = [
        rows.column(name).to_pylist()
        for name in ("_topic", "_partition", "_offset", "_timestamp", "_key", "_value", "_headers", "_error")
    ]
    return [
        Message(
            columns if problem is None else None,
            topic=topic,
            partition=partition,
            offset=offset,
            timestamp=timestamp,
            key=key,
            value=value,
            headers=[(each["name"], each["value"]) for each in headers or []],
            error=problem,
        )
        for columns, topic, partition, offset, timestamp, key, value, headers, problem in zip(
            data, *reserved, strict=True
        )
    ]
