"""From a log record to an event: one flat JSON object.

`at` (UTC, microseconds), `level`, `logger`, `message`, then the context's fields and the record's extras beside them,
then `exception` and `stack` where there are any. An extra with one of these names is called `field_<name>`, or
`field_field_<name>` if that is taken, and so on.
"""

import datetime
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_TAKEN = frozenset({"at", "level", "logger", "message", "exception", "stack"})
_UNCHANGING = frozenset({str, int, float, bool, type(None)})
_formatter = logging.Formatter()


class Event(NamedTuple):
    """A record's content at the moment it was logged; nothing in it changes afterwards."""

    created: float
    level: str
    logger: str
    message: str
    fields: dict[str, Any]
    key: str | None = None
    exception: str | None = None
    stack: str | None = None


def snapshot(record: logging.LogRecord, context: Mapping[str, Any], key_name: str | None) -> Event:
    """Take what is needed of a record, in the thread that logged it.

    Text and numbers are kept for later. Everything that could change until the event is sent, such as a list, is
    written as JSON now.
    """
    extras = {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
    fields = {**context, **extras}
    key = fields.get(key_name) if key_name is not None else None
    for name, value in fields.items():
        if type(value) not in _UNCHANGING:
            fields[name] = orjson.Fragment(_json(value))
    if record.exc_info and not record.exc_text:
        # Kept on the record, as logging's own formatter does, so that no other handler makes the text again.
        record.exc_text = _formatter.formatException(record.exc_info)
    return Event(
        record.created,
        record.levelname,
        record.name,
        record.getMessage(),
        fields,
        _text(key) if key is not None else None,
        record.exc_text or None,
        record.stack_info,
    )


def encode(event: Event) -> bytes:
    """Write an event as JSON. Whatever a program logs can be written: values that JSON has no form for become text."""
    at = datetime.datetime.fromtimestamp(event.created, datetime.UTC).isoformat(timespec="microseconds")
    document: dict[str, Any] = {
        "at": at.removesuffix("+00:00") + "Z",
        "level": event.level,
        "logger": event.logger,
        "message": event.message,
    }
    for name, value in event.fields.items():
        document[_free_name(name, event.fields) if name in _TAKEN else name] = value
    if event.exception is not None:
        document["exception"] = event.exception
    if event.stack is not None:
        document["stack"] = event.stack
    try:
        return orjson.dumps(document)
    except TypeError:
        texts: dict[str, Any] = {}
        for name, value in document.items():
            texts[_free_name(_text(name), texts) if _text(name) in texts else _text(name)] = _safe(value)
        return orjson.dumps(texts)


def _free_name(name: str, others: Mapping[str, Any]) -> str:
    while (name := f"field_{name}") in others:
        pass
    return name


def _safe(value: Any) -> Any:
    """Return one field as it is if JSON can hold it, else as text."""
    return value if isinstance(value, orjson.Fragment) else orjson.Fragment(_json(value))


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=_text, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        # A number above 64 bits, half of a surrogate pair, a list that holds itself.
        return orjson.dumps(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="backslashreplace")
    try:
        return str(value).encode(errors="backslashreplace").decode()
    except Exception:  # noqa: BLE001 - the user's own __str__ may raise anything, and logging must go on
        return f"<{type(value).__name__} without a text>"
