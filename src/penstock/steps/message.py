"""What handlers get: an event as a message, and information about a batch."""

import copy
import datetime
from dataclasses import dataclass
from typing import Any, Literal, Self

from penstock.record.columns import SUMMARY
from penstock.record.decoded import RecordError, record_error

DEFAULT = "default"


class Message:
    """One event on its way through the handlers. Change `data` in place, or put another dictionary there."""

    __slots__ = (
        "_error",
        "batch_key",
        "batch_mode",
        "batcher",
        "data",
        "headers",
        "is_dropped",
        "key",
        "offset",
        "partition",
        "timestamp",
        "topic",
        "value",
    )

    def __init__(
        self,
        data: Any,
        *,
        topic: str = "",
        partition: int = 0,
        offset: int = 0,
        timestamp: datetime.datetime | None = None,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: list[tuple[str, bytes | None]] | None = None,
        error: RecordError | None = None,
    ) -> None:
        self.data = data
        """The columns by name; None if the record could not be decoded, which only `handle_failed` ever sees."""
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        """The record's value as it was, byte for byte."""
        self.headers = headers or []
        self.batcher = DEFAULT
        self.batch_key: Any = DEFAULT
        self.batch_mode: Literal["bulk", "flush"] = "bulk"
        self._error = error
        self.is_dropped = False

    @property
    def error(self) -> RecordError | None:
        """Why it failed: stage, error and message; None as long as it has not."""
        return self._error

    @error.setter
    def error(self, value: RecordError | None) -> None:
        # An error without a stage would pass for none, and a row of nulls would be written.
        if value is not None and not _is_whole(value):
            raise TypeError("an error has a stage, a class and a message: use message.failed(reason)")
        self._error = value

    def put_batcher(self, name: str) -> Self:
        """Choose the batcher that the message goes to."""
        self.batcher = name
        return self

    def put_batch_key(self, key: Any) -> Self:
        """Choose the batch key: messages of a batcher with the same key share a batch."""
        self.batch_key = key
        return self

    def put_batch_mode(self, mode: Literal["bulk", "flush"]) -> Self:
        """`flush` ends the message's batch as soon as the current messages have been handled."""
        self.batch_mode = mode
        return self

    def failed(self, reason: str) -> Self:
        """Mark it as failed: it skips the remaining handlers, and becomes a dead letter with this reason."""
        self.error = record_error("MessageFailed", str(reason), stage="handler")
        return self

    def drop(self) -> Self:
        """Leave it out, on purpose: it is counted as dropped, and goes nowhere."""
        self.is_dropped = True
        return self

    @property
    def is_good(self) -> bool:
        """Return whether it goes on to the next stage."""
        return self.error is None and not self.is_dropped

    def kept(self) -> dict[str, Any]:
        """Return a copy of its state, independent of later changes; raise if `data` cannot be copied."""
        own = {name: getattr(self, name) for name in self.__slots__}
        return {**own, "data": copy.deepcopy(self.data), "headers": copy.deepcopy(self.headers)}

    def put_back(self, kept: dict[str, Any]) -> None:
        """Restore that state, as often as needed."""
        for name, value in kept.items():
            setattr(self, name, copy.deepcopy(value) if name in {"data", "headers"} else value)

    def __repr__(self) -> str:
        return f"Message({self.topic}-{self.partition}@{self.offset}, {self.data!r})"


@dataclass(frozen=True)
class BatchInfo:
    """What is known of a batch besides its messages."""

    batcher: str
    batch_key: Any
    partition: int
    """The source partition; a batch never mixes two."""
    size: int
    trigger: Literal["size", "bytes", "flush"]
    """Why it ended: it was full by count or by bytes, or nothing more is to come in this run of Spark."""


def _is_whole(error: Any) -> bool:
    if not isinstance(error, dict) or error.get("stage") == SUMMARY:
        return False
    return bool(error.get("stage")) and all(isinstance(error.get(name), str) for name in ("stage", "error", "message"))
