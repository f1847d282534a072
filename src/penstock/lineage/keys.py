"""How lineage names things across events: by what the events say, never by a number of a database."""

import datetime
from functools import lru_cache
from typing import NamedTuple
from uuid import NAMESPACE_URL, UUID, uuid5

NO_HOST = "unknown"
"""Name of a location that its namespace names no host for, such as `file`."""
NO_SCHEME = "unknown"
"""Type of a location whose namespace has none, such as `penstock`."""
NO_RUN = UUID(int=0)
"""Stands for the run where a JobEvent says what a job reads and writes: none has done it."""
_UUID7 = 7
_REMEMBERED = 50_000
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_END_MS = 253_402_300_800_000  # the year 10000


class LocationKey(NamedTuple):
    """Where datasets or jobs live: `kafka` and `broker-1:9092`. Both are lower case."""

    type: str
    name: str


def written(kind: str, name: str) -> str:
    """Write a location for people: without the part that its namespace did not have."""
    if kind == NO_SCHEME or name == NO_HOST:
        return name if kind == NO_SCHEME else kind
    return f"{kind}://{name}"


class DatasetKey(NamedTuple):
    """A table, topic or folder. The name is lower case; how it was spelt is in `facts.Dataset`."""

    location: LocationKey
    name: str


class JobKey(NamedTuple):
    """A program that runs again and again. The name is lower case; how it was spelt is in `facts.Job`."""

    location: LocationKey
    name: str


def declared_by(job: JobKey) -> UUID:
    """Return what stands for the operation where a JobEvent says what the job reads and writes."""
    return uuid5(NAMESPACE_URL, f"{job.location.type}://{job.location.name}/{job.name}")


@lru_cache(_REMEMBERED)
def time_of(run_id: UUID) -> datetime.datetime | None:
    """Return the time inside a UUIDv7; None for any other, and for a time that no calendar has."""
    number = run_id.int
    if number >> 76 & 0xF != _UUID7:
        return None
    milliseconds = number >> 80
    if milliseconds >= _END_MS:
        return None
    return _EPOCH + datetime.timedelta(milliseconds=milliseconds)


def in_utc(time: datetime.datetime) -> datetime.datetime | None:
    """Return the same time in UTC, which it is taken for if it has no zone; None if UTC has no such time."""
    try:
        return time.replace(tzinfo=datetime.UTC) if time.tzinfo is None else time.astimezone(datetime.UTC)
    except OverflowError:
        return None
