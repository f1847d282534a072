"""Fields that every log record of a context carries, such as the id of a request or a game."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_EMPTY: Mapping[str, Any] = {}
_fields: ContextVar[Mapping[str, Any]] = ContextVar("penstock_log_context", default=_EMPTY)


@contextmanager
def log_context(**fields: Any) -> Iterator[None]:
    """Add fields to every record that is logged inside, in this thread or asyncio task and in tasks it starts.

    Blocks can be nested; the inner one wins, and a record's own `extra` wins over both.
    """
    token = _fields.set({**_fields.get(), **fields})
    try:
        yield
    finally:
        _fields.reset(token)


def current() -> Mapping[str, Any]:
    """Return the fields in force here."""
    return _fields.get()
