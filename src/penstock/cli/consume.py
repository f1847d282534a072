"""penstock consume: any part of a topic on stdout. Joins no group unless told, so it moves no position."""

import base64
import datetime
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from penstock.cli import completion
from penstock.cli.output import Json, key_values, say
from penstock.cli.session import session
from penstock.errors import BadInput
from penstock.schemas.wire import looks_framed, schema_id_of
from penstock.terminal import write_data
from penstock.wording import plural

if TYPE_CHECKING:
    from confluent_kafka import Message

    from penstock.cli.decoded_records import DecodedRecords
    from penstock.kafka.connection import Connection
    from penstock.kafka.positions import Position

_GROUP_BATCH = 500
_GROUP_IDLE_S = 5.0
_QUIET_S = 1.0


def consume(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="Topic to read.", autocompletion=completion.topics)],
    from_: Annotated[
        str | None,
        typer.Option("--from", help="earliest, latest, an offset, a time (2026-01-31T12:00) or how long ago (15m)."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Where to stop, written like --from; the current end if left out.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing records as they arrive.")] = False,
    tail: Annotated[
        int | None, typer.Option(min=1, help="Start this many records before the end of each partition.")
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    key: Annotated[str | None, typer.Option(help="Only records with this key.")] = None,
    value: Annotated[str | None, typer.Option(help="Only records whose value contains this.")] = None,
    header: Annotated[list[str] | None, typer.Option(help="Only records with this header, NAME=VALUE.")] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after this many records.")] = None,
    group: Annotated[
        str | None, typer.Option(help="Read as this group and move its position behind what was printed.")
    ] = None,
    decode: Annotated[
        bool, typer.Option("--decode", help="Decode keys and values by the schemas that they name in the registry.")
    ] = False,
    registry: Annotated[
        str | None, typer.Option(help="Address of that registry; the project's if left out. Means --decode.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print records: values as lines, or with --json everything, one JSON object per line."""
    from penstock.kafka.positions import EARLIEST, LATEST, Position

    if from_ is not None and tail is not None:
        raise BadInput("give --from or --tail, not both")
    if follow and until is not None:
        raise BadInput("give --follow or --until, not both")
    if group is not None and (until is not None or partition is not None or tail is not None):
        raise BadInput("a group reads on from its position: --until, --tail and --partition do not go with --group")
    start = Position("before_end", tail) if tail is not None else Position.parse(from_) if from_ else EARLIEST
    output = _Output(_Filter(key, value, key_values(header or [], "--header")), count, as_json)
    connection = session(context).live_connection()
    if decode or registry is not None:
        from penstock.cli.decoded_records import DecodedRecords

        output.decoded = DecodedRecords(session(context).settings.registry(registry))
    try:
        if group is not None:
            _as_group(connection, topic, group, start, output, follow=follow)
        else:
            end = None if follow else Position.parse(until) if until else LATEST
            _alone(connection, topic, start, end, partition, output)
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(f"{plural(output.printed, 'record')} printed")
        if group is not None:
            interrupt.add_note(f"{output.committed:,} of them committed for group '{group}'")
        raise
    say(plural(output.printed, "record") + output.about_schemas())


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


@dataclass
class _Output:
    """Prints the records that are wanted, and counts them."""

    chosen: _Filter
    count: int | None
    as_json: bool
    printed: int = 0
    committed: int = 0
    decoded: "DecodedRecords | None" = None
    _last: float = field(default_factory=time.monotonic)
    _has_explained: bool = False
    _is_told_of_schemas: bool = False

    @property
    def is_full(self) -> bool:
        return self.count is not None and self.printed >= self.count

    def take(self, batch: "Iterable[Message]") -> None:
        for message in filter(self.chosen.takes, batch):
            self._say_if_framed(message)
            write_data(self._line(message) + b"\n")
            self.printed += 1
            self._last = time.monotonic()
            if self.is_full:
                break
        sys.stdout.flush()

    def _line(self, message: "Message") -> bytes:
        if self.as_json:
            found = describe(message)
            found = found if self.decoded is None else self.decoded.described(message, found)
            return orjson.dumps(found, option=orjson.OPT_NON_STR_KEYS)
        return message.value() or b"" if self.decoded is None else self.decoded.line(message)

    def _say_if_framed(self, message: "Message") -> None:
        """Say once that values look as if they were written with a schema registry, and how to decode them."""
        value = message.value()
        if self.decoded is not None or self._is_told_of_schemas or not value or not looks_framed(value):
            return
        self._is_told_of_schemas = True
        say(
            f"these values look framed by a schema registry (schema id {schema_id_of(value)}). Decode them with:"
            f" penstock consume {message.topic()} --decode; or --registry URL for one that is not the project's"
        )

    def about_schemas(self) -> str:
        """Return which schemas the values were written with, and how many say nothing of it."""
        if self.decoded is None:
            return ""
        ids = ", ".join(map(str, sorted(self.decoded.schema_ids)))
        written = f", written with {'schemas' if len(self.decoded.schema_ids) > 1 else 'schema'} {ids}" if ids else ""
        return written + (f", {self.decoded.undecoded:,} as they are" if self.decoded.undecoded else "")

    def say_if_quiet(self) -> None:
        """Explain once, at a terminal, why nothing more appears."""
        if not self._has_explained and sys.stderr.isatty() and time.monotonic() - self._last > _QUIET_S:
            self._has_explained = True
            say("waiting for records; Ctrl-C ends")


def _alone(
    connection: "Connection",
    topic: str,
    start: "Position",
    end: "Position | None",
    partition: int | None,
    output: _Output,
) -> None:
    from penstock.kafka.reader import Reader

    with Reader(connection, topic, start=start, end=end, partition=partition) as reader:
        for batch in reader.batches():
            output.take(batch)
            if output.is_full:
                break
            if end is None:
                output.say_if_quiet()


def _as_group(
    connection: "Connection", topic: str, group: str, start: "Position", output: _Output, *, follow: bool
) -> None:
    """Print, then commit: what was not printed is not skipped."""
    from penstock.kafka.consumer import Consumer

    with Consumer(connection, [topic], group, start=start) as consumer:
        while not output.is_full:
            # Never more than is wanted: what is read here is committed, and so passed over for the group.
            most = _GROUP_BATCH if output.count is None else min(_GROUP_BATCH, output.count - output.printed)
            wait = consumer.batches(max_events=most, max_wait_s=0.5, idle_s=_QUIET_S if follow else _GROUP_IDLE_S)
            batch = next(wait, None)
            if batch is not None:
                output.take(batch)
                batch.commit()
                output.committed = output.printed
            elif follow:
                output.say_if_quiet()
            else:
                break


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
    """Return a time as text; as milliseconds if the calendar has no such time: anybody may send any number."""
    try:
        moment = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return timestamp_ms
    return moment.isoformat(timespec="milliseconds")


def header_list(message: "Message") -> "list[tuple[str, bytes | str | None]]":
    """Return a record's headers as pairs; a name may occur more than once."""
    headers = message.headers() or []
    return list(headers.items()) if isinstance(headers, dict) else list(headers)


def _text(content: "bytes | str | None") -> Any:
    if content is None or isinstance(content, str):
        return content
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}
