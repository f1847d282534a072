"""OpenLineage's events as they come: RunEvent, JobEvent and DatasetEvent, read into types.

Guarantee: a value is either an event whose time, run id, job and datasets are there, or `MalformedEvent` with one
reason in plain words. Facets are left as they came: one that is odd never costs the event.
"""

import datetime
import re
from typing import Literal, NoReturn
from uuid import UUID

import msgspec

from penstock.lineage.keys import NO_RUN, in_utc

MAX_BYTES = 10_000_000
"""A larger event is refused: it would hold up all others."""

Facets = dict[str, msgspec.Raw]


class MalformedEvent(ValueError):
    """Why a value is no event: `kind` is short enough for a header, and `path` says where, such as `run.runId`."""

    def __init__(self, kind: str, message: str, path: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.path = path


class Dataset(msgspec.Struct, gc=False, rename="camel"):
    """A dataset of an event, or the only one of a DatasetEvent."""

    namespace: str
    name: str
    facets: Facets | None = None
    input_facets: Facets | None = None
    output_facets: Facets | None = None


class Job(msgspec.Struct, gc=False):
    """The job of a RunEvent or a JobEvent."""

    namespace: str
    name: str
    facets: Facets | None = None


class Run(msgspec.Struct, gc=False, rename="camel"):
    """The run of a RunEvent."""

    run_id: UUID
    facets: Facets | None = None


class Event(msgspec.Struct, gc=False, rename="camel"):
    """Any event: with a run it is a RunEvent, with a job alone a JobEvent, or else a DatasetEvent."""

    event_time: datetime.datetime
    """In UTC; taken as UTC if it has no zone."""
    event_type: Literal["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"] | None = None
    run: Run | None = None
    job: Job | None = None
    dataset: Dataset | None = None
    inputs: list[Dataset] | None = None
    outputs: list[Dataset] | None = None
    schema_url: str | None = msgspec.field(default=None, name="schemaURL")


_decode = msgspec.json.Decoder(Event).decode
_ZERO = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
_PATH = re.compile(r"at `\$\.?([^`]*)`")


def parse(value: bytes) -> Event:
    """Return the event; raise `MalformedEvent` if it is none."""
    if len(value) > MAX_BYTES:
        raise MalformedEvent("TooLarge", f"the event has {len(value)} bytes, at most {MAX_BYTES} are accepted")
    if b"\\" in value and b"\\u0000" in value:  # most have no backslash, which is found out in no time
        value = _ZERO.sub(rb"\1\\ufffd", value)  # no database takes the character zero in a text
    try:
        value.isascii() or value.decode()  # most are, which is found out in less than half of the time
        event = _decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _refuse(value, error)
    if event.event_time.tzinfo is not datetime.UTC:
        time = in_utc(event.event_time)
        if time is None:
            raise MalformedEvent("BadTime", f"eventTime {event.event_time} is not a time in UTC", "eventTime")
        event.event_time = time
    _require_subject(event)
    return event


def _require_subject(event: Event) -> None:
    """Refuse an event that is about nothing."""
    if event.run is not None:
        if event.job is None:
            raise MalformedEvent("NoJob", "the event has a run and no job", "job")
        if event.run.run_id == NO_RUN:
            raise MalformedEvent("BadRunId", f"the run's id is {NO_RUN}, which names no run", "run.runId")
    elif event.event_type is not None or "RunEvent" in (event.schema_url or ""):
        raise MalformedEvent("NoRun", "the event has no run", "run")
    elif event.job is None and event.dataset is None:
        raise MalformedEvent("NoRun", "the event has no run, no job and no dataset", "run")


def _refuse(value: bytes, error: Exception) -> NoReturn:
    """Say in plain words what is wrong."""
    if not value.strip():
        raise MalformedEvent("EmptyValue", "the value is empty")
    if isinstance(error, RecursionError):
        raise MalformedEvent("TooDeep", "the event is nested too deeply")
    if not isinstance(error, msgspec.ValidationError):
        raise MalformedEvent("Malformed", f"the value is not JSON: {error}")
    text = str(error)
    path = _PATH.search(text)
    at = path[1] if path else ""
    if at == "" and "missing required field" not in text:
        raise MalformedEvent("Malformed", "the value is JSON, but no object")
    if at == "eventTime" or "field `eventTime`" in text:
        raise MalformedEvent("BadTime", f"the event has no eventTime that can be read: {text}", "eventTime")
    if at == "eventType":
        known = "START, RUNNING, COMPLETE, ABORT, FAIL, OTHER"
        raise MalformedEvent("BadType", f"eventType is none of {known}: {text}", at)
    if at == "run.runId" or (at == "run" and "`runId`" in text):
        raise MalformedEvent("BadRunId", f"the run's id is not a UUID: {text}", "run.runId")
    kind = "NoJob" if at.startswith("job") else "SchemaMismatch"
    raise MalformedEvent(kind, f"the event is not as it should be: {text}", at)
