"""Records: browsing from anywhere, searching a whole topic, sending. Nobody's position moves."""

import time
from contextlib import ExitStack
from http import HTTPStatus
from itertools import islice
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from penstock.console.actions import ActionRoute
from penstock.console.api.topics import Topic, require_not_own
from penstock.console.asking import NEEDS, FromConsole, FromKafka, Viewer
from penstock.console.records import Record, headers_of, in_order, that_fit
from penstock.console.searches import Search, Wanted
from penstock.console.service import MOST_DOWNLOADS
from penstock.console.tails import TailLook, TailWanted
from penstock.errors import Conflict, NotFound, Refused
from penstock.kafka import topics
from penstock.kafka.positions import LATEST, Position
from penstock.kafka.producer import Producer
from penstock.kafka.reader import Reader, read_one

router = APIRouter(tags=["messages"], route_class=ActionRoute)
TailId = Annotated[str, Path(max_length=32, description="The tail's id.")]
SearchId = Annotated[str, Path(max_length=32, description="The search's id.")]
_LONGEST_S = 5.0
_MOST = 500
_MOST_DOWNLOADED = 100_000


class Page(BaseModel, frozen=True):
    """Some records."""

    records: list[Record] = Field(description="Records by time; those of a partition in their order.")
    is_whole: bool = Field(description="Whether there is nothing more: of the newest, before them; else behind them.")


class NewRecord(BaseModel, frozen=True, extra="forbid"):
    """A record to send."""

    value: str | None = Field(description="Value; none sends a tombstone.")
    key: str | None = Field(None, description="Key.")
    headers: list[tuple[str, str]] = Field(default_factory=list, max_length=100, description="Headers.")
    partition: int | None = Field(None, ge=0, description="Partition; by the key if left out.")


class Copy(BaseModel, frozen=True, extra="forbid"):
    """A record to send to another topic."""

    partition: int = Field(ge=0, description="Its partition.")
    offset: int = Field(ge=0, description="Its offset.")
    to: str = Field(max_length=249, description="The topic that it goes to; by its key if it has one.")


class Sent(BaseModel, frozen=True):
    """A record that Kafka has acknowledged."""

    topic: str = Field(description="Topic.")
    acknowledged: int = Field(description="How many records every replica in sync has.")


class _Download(StreamingResponse):
    """Records on their way to a client, which may take them as slowly as it likes, or never the first of them."""

    def __init__(self, held: ExitStack, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and then let go of what is held for it, whatever became of it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await run_in_threadpool(self._held.close)


@router.get("/topics/{topic}/messages", summary="Browse a topic", dependencies=NEEDS["viewer"])
def browse(
    kafka: FromKafka,
    topic: Topic,
    start: Annotated[
        str, Query(max_length=64, description="latest: the newest; earliest, an offset, a time or 15m: from there on.")
    ] = "latest",
    partition: Annotated[int | None, Query(ge=0, description="Only this partition.")] = None,
    count: Annotated[int, Query(ge=1, le=_MOST, description="How many at most.")] = 50,
) -> Page:
    """Return committed records. Takes at most five seconds, and joins no group."""
    position = Position.parse(start)
    is_newest = position.kind == "latest"
    begin = Position("before_end", count) if is_newest else position
    deadline = time.monotonic() + _LONGEST_S
    found: list[Record] = []
    is_whole = True
    with Reader(kafka.connection(), topic, start=begin, end=LATEST, partition=partition) as reader:
        for batch in reader.batches(max_events=count):
            came = in_order([*found, *map(kafka.masks.record_of, batch)])
            # Of the newest, each partition has as many: no more of them are held than are shown.
            found = that_fit(reversed(came[-count:]))[::-1] if is_newest else that_fit(came)
            is_whole = is_whole and len(found) == len(came)
            if time.monotonic() > deadline or (not is_newest and (len(found) >= count or not is_whole)):
                is_whole = False
                break
    if is_newest:
        return Page(records=found, is_whole=is_whole and len(found) < count)
    return Page(records=found[:count], is_whole=is_whole and len(found) <= count)


@router.get(
    "/topics/{topic}/messages/download",
    summary="Download records as a file",
    response_class=StreamingResponse,
    dependencies=NEEDS["viewer"],
)
def download(
    console: FromConsole,
    kafka: FromKafka,
    topic: Topic,
    start: Annotated[str, Query(max_length=64, description="earliest, an offset, a time or 15m.")] = "earliest",
    partition: Annotated[int | None, Query(ge=0, description="Only this partition.")] = None,
    count: Annotated[int, Query(ge=1, le=_MOST_DOWNLOADED, description="How many at most.")] = 10_000,
) -> StreamingResponse:
    """Return committed records as JSON lines, as they are shown; refused where the console was told to."""
    if not console.has_downloads:
        raise Refused("this console does not offer records as files")
    if not console.downloads.acquire(blocking=False):
        raise Conflict(f"{MOST_DOWNLOADS} downloads are running already", fix="Try again in a moment")
    with ExitStack() as held:
        held.callback(console.downloads.release)
        reader = Reader(kafka.connection(), topic, start=Position.parse(start), end=LATEST, partition=partition)
        held.callback(reader.close)
        lines = (kafka.masks.record_of(each).model_dump_json().encode() + b"\n" for each in islice(reader, count))
        named = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(topic, safe='')}.jsonl"}
        return _Download(held.pop_all(), lines, media_type="application/jsonl", headers=named)


@router.post(
    "/topics/{topic}/messages",
    summary="Send a record",
    status_code=HTTPStatus.CREATED,
    dependencies=NEEDS["operator"],
)
def produce(console: FromConsole, kafka: FromKafka, topic: Topic, record: NewRecord) -> Sent:
    """Send one record, and answer when every replica in sync has it."""
    require_not_own(console, topic)
    count = topics.partition_count(kafka.admin(), topic)
    if record.partition is not None and record.partition >= count:
        raise NotFound(f"topic '{topic}' has no partition {record.partition}; it has 0 to {count - 1}")
    with Producer(kafka.connection()) as producer:
        producer.send(
            topic,
            record.value,
            key=record.key,
            headers=record.headers or None,
            partition=-1 if record.partition is None else record.partition,
        )
    return Sent(topic=topic, acknowledged=1)


@router.post(
    "/topics/{topic}/messages/copy",
    summary="Copy a record to another topic",
    status_code=HTTPStatus.CREATED,
    dependencies=NEEDS["operator"],
)
def copy(console: FromConsole, kafka: FromKafka, topic: Topic, wanted: Copy) -> Sent:
    """Send a record once more as it is, byte by byte: key, value and headers; its time is that of the copy."""
    require_not_own(console, wanted.to)
    connection = kafka.connection()
    topics.partition_count(kafka.admin(), wanted.to)
    found = read_one(connection, topic, wanted.partition, wanted.offset)
    if found is None:
        raise NotFound(f"there is no record at offset {wanted.offset} of {topic}/{wanted.partition}")
    if kafka.masks.applies_to_record(found):
        raise Conflict(
            f"rules hide parts of this record of '{topic}': it is not copied to where they may not apply",
            safe="Nothing was sent",
        )
    with Producer(connection) as producer:
        producer.send(wanted.to, found.value(), key=found.key(), headers=headers_of(found) or None)
    return Sent(topic=wanted.to, acknowledged=1)


@router.post("/tails", summary="Watch a topic", status_code=HTTPStatus.CREATED, dependencies=NEEDS["viewer"])
def begin_tail(kafka: FromKafka, asker: Viewer, wanted: TailWanted) -> TailLook:
    """Watch a topic from its present end on; it ends when nobody has looked for half a minute."""
    return kafka.tails.begin(asker.name, wanted)


@router.get("/tails/{tail_id}", summary="What came since the last look", dependencies=NEEDS["viewer"])
def look_at_tail(kafka: FromKafka, asker: Viewer, tail_id: TailId) -> TailLook:
    """Return the records that came since, the newest 200 at most, and how many went by besides."""
    return kafka.tails.look(asker.name, tail_id)


@router.delete("/tails/{tail_id}", summary="Watch no longer", dependencies=NEEDS["viewer"])
def end_tail(kafka: FromKafka, asker: Viewer, tail_id: TailId) -> TailLook:
    """End a tail of one's own."""
    return kafka.tails.end(asker.name, tail_id)


@router.post("/searches", summary="Search a topic", status_code=HTTPStatus.ACCEPTED, dependencies=NEEDS["viewer"])
def begin_search(kafka: FromKafka, asker: Viewer, wanted: Wanted) -> Search:
    """Begin to look through a topic up to its present end; ask for the search to see how far it is."""
    return kafka.searches.begin(asker.name, wanted)


@router.get("/searches/{search_id}", summary="State of a search", dependencies=NEEDS["viewer"])
def get_search(kafka: FromKafka, asker: Viewer, search_id: SearchId) -> Search:
    """Return the progress of a search of one's own, and what it found."""
    return kafka.searches.get(asker.name, search_id)


@router.delete("/searches/{search_id}", summary="Cancel a search", dependencies=NEEDS["viewer"])
def cancel_search(kafka: FromKafka, asker: Viewer, search_id: SearchId) -> Search:
    """End a search of one's own; what it found stays."""
    return kafka.searches.cancel(asker.name, search_id)
