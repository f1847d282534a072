"""Numbers and times as people read them."""

import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_THOUSAND = 1_000
_MILLION = 1_000_000
_FEW = 10


def zone_of(name: object) -> datetime.tzinfo:
    """Return the zone of a browser; UTC if it names none that is known."""
    try:
        return ZoneInfo(str(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return datetime.UTC


def moment(seconds: float | None, zone: datetime.tzinfo) -> str:
    """Write a time in the reader's zone."""
    if seconds is None:
        return "—"
    try:
        return datetime.datetime.fromtimestamp(seconds, zone).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return str(seconds)


def exactly(seconds: float | None) -> str:
    """Write a time to the millisecond, in UTC, for whoever points at it."""
    if seconds is None:
        return ""
    try:
        found = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return str(seconds)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def count(number: float | None) -> str:
    """Write a count with its thousands apart; a dash if it is not known yet."""
    return "—" if number is None else f"{number:,.0f}"


def rate(number: float | None) -> str:
    """Write how many a second, as short as that is clear."""
    if number is None:
        return "—"
    if number >= _MILLION:
        return f"{number / _MILLION:,.1f} M/s"
    if number >= _FEW * _THOUSAND:
        return f"{number / _THOUSAND:,.1f} k/s"
    return f"{number:,.0f}/s" if number >= _FEW or number == 0 else f"{number:,.1f}/s"


def moment_of_text(text: str, zone: datetime.tzinfo) -> str:
    """Write a time that came as text in the reader's zone; what is no time stays as it is."""
    try:
        return moment(datetime.datetime.fromisoformat(text).timestamp(), zone)
    except ValueError:
        return text


def in_zone(text: str, zone: datetime.tzinfo) -> str:
    """Return a time that somebody typed with their zone, as they read all others; what is no time stays as it is."""
    typed = text.strip()
    try:
        found = datetime.datetime.fromisoformat(typed)
    except ValueError:
        return typed
    return typed if typed.isdecimal() or found.tzinfo is not None else found.replace(tzinfo=zone).isoformat()


def size(number: float | None) -> str:
    """Write how many bytes, in the unit that fits."""
    if number is None:
        return "—"
    for unit in ("B", "kB", "MB", "GB"):
        if number < _THOUSAND:
            return f"{number:,.0f} {unit}" if unit == "B" or number >= _FEW else f"{number:,.1f} {unit}"
        number /= _THOUSAND
    return f"{number:,.1f} TB"


def share(part: float | None) -> str:
    """Write a share of one in percent; what is not all of it is never written as 100 %."""
    if part is None:
        return "—"
    shown = f"{100 * part:.2f}"
    return "100 %" if part >= 1 else f"{'99.99' if shown == '100.00' else shown} %"
