"""A body becomes records: byte for byte what was sent, with the key and the time that it is kept under.

An OpenLineage event is read as the store's decoder reads it: what would become a dead letter is refused, with the same
reason. How deep and how many is counted first, on the brackets alone, so that no body makes the parser build more than
the limits allow.
"""

import datetime
import re
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import numpy as np

from penstock.kafka.topic_limits import TopicLimits
from penstock.lineage.events import Dataset, Event, Job, MalformedEvent, Run, parse
from penstock.lineage.gateway.options import GatewayLimits
from penstock.lineage.gateway.refusal import Refusal, invalid

# Strings, also one without an end: then all the rest is one, and nothing is looked at twice.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_BUT_MARKS = bytes(set(range(256)) - set(b"{}[],"))
_COMMA = ord(",")
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"{[")] = 1
_STEPS[list(b"}]")] = -1
_CHUNK = 2**20
_QUOTES_MAX = 2**20
_LATE_MS = 86_400_000
_EARLY_MS = 300_000
_NO_OBJECT = {"EmptyValue", "Malformed", "TooDeep"}
_TOLD_MAX = 100
"""Bad events of one body that the answer names."""


class Record(NamedTuple):
    """One event on its way to Kafka."""

    value: bytes
    key: bytes | None
    timestamp_ms: int
    """Zero is Kafka's word for now."""


class _Job(msgspec.Struct):
    namespace: str
    name: str


_Named = _Job | Job | Dataset


class _Of(msgspec.Struct):
    job: _Job


class _Parent(msgspec.Struct):
    job: _Job | None = None
    root: _Of | None = None


_read_parent = msgspec.json.Decoder(_Parent).decode
_read_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_any = msgspec.json.Decoder(msgspec.Raw).decode

Reading = Callable[[bytes, int | None], Record]
"""Returns the record of one event; the number is its place in a batch, for complaints."""


def records(body: bytes, limits: GatewayLimits, read: Reading) -> list[Record]:
    """Return the records of a body, an event or an array of them; one that cannot be taken refuses the whole body."""
    content = body.strip(b" \t\r\n")
    is_batch = content.startswith(b"[")
    _require_shape(content, limits, is_batch=is_batch)
    try:
        content.decode()
        parts = [bytes(each) for each in _read_list(content)] if is_batch else [content]
    except UnicodeDecodeError:
        raise Refusal(400, "The body is not UTF-8") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refusal(400, f"The body is not JSON: {error}") from None
    if not parts:
        raise invalid("the array has no event")
    taken, refused = [], []
    for number, part in enumerate(parts):
        place = number if is_batch else None
        if len(part) > limits.event_max_bytes:
            at = [] if place is None else [place]
            text = f"An event has {len(part)} bytes, and {limits.event_max_bytes} are taken"
            raise Refusal(413, text, details=[{"location": ["body", *at], "message": text, "code": "too_large"}])
        try:
            taken.append(read(part if is_batch else body, place))
        except Refusal as refusal:
            refused.append(refusal)
    if refused:
        raise _all_of(refused, len(parts))
    return taken


def _all_of(refused: list[Refusal], events: int) -> Refusal:
    """Name every bad event at once: whoever leaves these out, or fixes them, is not refused for the next."""
    first = refused[0]
    if len(refused) == 1:
        return first
    details = [detail for refusal in refused[:_TOLD_MAX] for detail in refusal.details or ()]
    return Refusal(first.status, f"{len(refused)} of {events} events are refused. {first.message}", details=details)


def _require_shape(content: bytes, limits: GatewayLimits, *, is_batch: bool) -> None:
    """Count depth and elements without building anything, in time that grows with the size alone."""
    # Most bodies have so few marks, those in strings included, that there is nothing to look for.
    is_shallow = content.count(b"{") + content.count(b"[") <= limits.depth_max
    if is_shallow and (not is_batch or content.count(b",") < limits.batch_max_events):
        return
    marks = _without_strings(content).translate(None, _BUT_MARKS)
    depth, elements = 0, 1
    for begin in range(0, len(marks), _CHUNK):
        chunk = np.frombuffer(marks, np.uint8)[begin : begin + _CHUNK]
        depths = np.cumsum(_STEPS[chunk], dtype=np.int32) + depth
        depth = int(depths[-1])
        elements += int(np.count_nonzero((chunk == _COMMA) & (depths == 1)))
        if depths.max() > limits.depth_max + is_batch:
            raise invalid(f"objects and arrays are more than {limits.depth_max} deep", code="too_deep")
        if is_batch and elements > limits.batch_max_events:
            text = f"A body has more than {limits.batch_max_events} events"
            raise Refusal(413, text, details={"max_events": limits.batch_max_events})


def _without_strings(content: bytes) -> bytes:
    if b"\\" not in content and content.count(b'"') < _QUOTES_MAX:
        return b"".join(content.split(b'"')[::2])  # much faster, where no quote is escaped
    return _STRING.sub(b"", content)


def lineage_record(part: bytes, place: int | None) -> Record:
    """Return the record of an OpenLineage event; its key is the one that OpenLineage's own Kafka transports use."""
    try:
        event = parse(part)
    except MalformedEvent as error:
        if place is None and error.kind in _NO_OBJECT:
            raise Refusal(400, f"The body is not an event: {error}") from None
        at = [] if place is None else [place]
        raise invalid(str(error), *at, *filter(None, error.path.split(".")), code=error.kind) from None
    return Record(part, _key(event), _timestamp_ms(event.event_time))


def _key(event: Event) -> bytes | None:
    named: _Named | None
    if event.run is not None:
        kind, named = "run", _family(event.run) or event.job
    elif event.dataset is not None:
        kind, named = "dataset", event.dataset
    else:
        kind, named = "job", event.job
    return None if named is None else f"{kind}:{named.namespace}/{named.name}".encode()


def _family(run: Run) -> _Job | None:
    """Return the job that a run belongs to: the root of its parents, else its parent."""
    facet = (run.facets or {}).get("parent")
    if facet is None:
        return None
    try:
        parent = _read_parent(facet)
    except msgspec.DecodeError:
        return None  # a facet that is not as it should be costs its event nothing
    return parent.root.job if parent.root is not None else parent.job


def _timestamp_ms(event_time: datetime.datetime) -> int:
    """Return when it happened, unless that is so long ago that retention would delete it, or yet to come."""
    happened_ms = round(event_time.timestamp() * 1000)
    age_ms = time.time() * 1000 - happened_ms
    return happened_ms if -_EARLY_MS < age_ms < _LATE_MS else 0


def any_record(key: str | None) -> Reading:
    """Return the reading of events that are any JSON object, all of them with one key or none."""
    wanted = None if key is None else key.encode()

    def read(part: bytes, place: int | None) -> Record:
        at = [] if place is None else [place]
        try:
            found = bytes(_read_any(part))
        except (msgspec.DecodeError, RecursionError) as error:
            raise Refusal(400, f"The body is not JSON: {error}") from None
        if not found.lstrip().startswith(b"{"):
            raise invalid("an event is a JSON object", *at, code="invalid")
        return Record(part, wanted, 0)

    return read


def fitting(taken: list[Record], topic: str, limits: TopicLimits) -> list[Record]:
    """Return the records as a topic takes them; raise `Refusal` for one that it would refuse with its neighbours."""
    now_ms = round(time.time() * 1000)
    fitted = []
    for number, record in enumerate(taken):
        if not limits.takes_time(record.timestamp_ms, now_ms):
            record = record._replace(timestamp_ms=0)  # noqa: PLW2901
        refusal = limits.refusal(record.key, record.value, (), record.timestamp_ms, now_ms)
        if refusal is not None:
            detail = {"location": ["body", number], "message": refusal[1], "code": refusal[0]}
            status = 413 if refusal[0] == "RecordTooLarge" else 422
            raise Refusal(status, f"Topic '{topic}' would refuse event {number}: {refusal[1]}", details=[detail])
        fitted.append(record)
    return fitted
