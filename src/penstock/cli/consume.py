"""penstock consume: any part of a topic on stdout. Joins no group unless told, so it moves no position."""

import base64
import datetime
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from penstock.cli import completion
from penstock.cli.output import Json, key_values, say
from penstock.cli.session import session
from penstock.errors import BadInput
from penstock.terminal import write_data

if TYPE_CHECKING:
    from confluent_kafka import Message

    from penstock.kafka.connection import Connection
    from penstock.kafka.positions import Position

_GROUP_BATCH = 500
_GROUP_IDLE_S = 5.0


def consume(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="Topic to read.", autocompletion=completion.topics)],
    from_: Annotated[
        str | None,
        typer.Option("--from", help="earliest, latest, an offset, a time (2026-01-31T12:00) or how long ago (15m)."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Where to end, said like --from; the end of now if left out.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as records arrive.")] = False,
    tail: Annotated[
        int | None, typer.Option(min=1, help="Begin so many records before the end of each partition.")
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    key: Annotated[str | None, typer.Option(help="Only records with this key.")] = None,
    value: Annotated[str | None, typer.Option(help="Only records whose value contains this.")] = None,
    header: Annotated[list[str] | None, typer.Option(help="Only records with this header, NAME=VALUE.")] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="End after so many.")] = None,
    group: Annotated[
        str | None, typer.Option(help="Read as this group and move its position behind what was printed.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print records: values as lines, or with --json everything, one JSON object a line."""
    from penstock.kafka.positions import EARLIEST, LATEST, Position

    if from_ is not None and tail is not None:
        raise BadInput("say --from or --tail, not both")
    if follow and until is not None:
        raise BadInput("say --follow or --until, not both")
    if group is not None and (until is not None or partition is not None or tail is not None):
        raise BadInput("a group reads on from its position: --until, --tail and --partition do not go with --group")
    start = Position("before_end", tail) if tail is not None else Position.parse(from_) if from_ else EARLIEST
    chosen = _Filter(key, value, key_values(header or [], "--header"))
    connection = session(context).connection()
    if group is not None:
        printed = _as_group(connection, topic, group, start, chosen, count, follow, as_json)
    else:
        end = None if follow else Position.parse(until) if until else LATEST
        printed = 0
        for message in _alone(connection, topic, start, end, partition):
            if chosen.takes(message):
                _print(message, as_json)
                printed += 1
                if printed == count:
                    break
    sys.stdout.flush()
    say(f"{printed} record(s)")


@dataclass(frozen=True)
class _Filter:
    key: str | None
    value: str | None
    headers: dict[str, str]

    def takes(self, message: "Message") -> bool:
        if self.key is not None and message.key() != self.key.encode():
            return False
        if self.value is not None and self.value.encode() not in (message.value() or b""):
            return False
        have = header_list(message)
        return all((name, content.encode()) in have for name, content in self.headers.items())


def _alone(
    connection: "Connection", topic: str, start: "Position", end: "Position | None", partition: int | None
) -> "Iterator[Message]":
    from penstock.kafka.reader import Reader

    with Reader(connection, topic, start=start, end=end, partition=partition) as reader:
        for batch in reader.batches():
            yield from batch
            sys.stdout.flush()


def _as_group(
    connection: "Connection",
    topic: str,
    group: str,
    start: "Position",
    chosen: _Filter,
    count: int | None,
    follow: bool,
    as_json: bool,
) -> int:
    """Print, then commit: what was not printed is not passed over."""
    from penstock.kafka.consumer import Consumer

    printed = 0
    with Consumer(connection, [topic], group, start=start) as consumer:
        while count is None or printed < count:
            # Never more than is wanted: what is read here is committed, and so passed over for the group.
            most = _GROUP_BATCH if count is None else min(_GROUP_BATCH, count - printed)
            wait = consumer.batches(max_events=most, max_wait_s=0.5, idle_s=None if follow else _GROUP_IDLE_S)
            batch = next(wait, None)
            if batch is None:
                break
            for message in filter(chosen.takes, batch):
                _print(message, as_json)
                printed += 1
            sys.stdout.flush()
            batch.commit()
    return printed


def _print(message: "Message", as_json: bool) -> None:
    line = orjson.dumps(describe(message)) if as_json else message.value() or b""
    write_data(line + b"\n")


def describe(message: "Message") -> dict[str, Any]:
    """Return a record as JSON can hold it; bytes that are not UTF-8 as {"base64": ...}."""
    _, timestamp_ms = message.timestamp()
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": _moment(timestamp_ms),
        "key": _text(message.key()),
        "value": _text(message.value()),
        "headers": [[name, _text(content)] for name, content in header_list(message)],
    }


def _moment(timestamp_ms: int) -> str | int:
    """Return a time as text; as milliseconds if that is no time of our calendar, as anybody may send it."""
    try:
        moment = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return timestamp_ms
    return moment.isoformat(timespec="milliseconds")


def header_list(message: "Message") -> "list[tuple[str, bytes | str | None]]":
    """Return a record's headers as pairs; a name may stand more than once."""
    headers = message.headers() or []
    return list(headers.items()) if isinstance(headers, dict) else list(headers)


def _text(content: "bytes | str | None") -> Any:
    if content is None or isinstance(content, str):
        return content
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}
