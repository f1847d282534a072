"""penstock produce: lines from stdin or a file into a topic."""

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

import orjson
import typer

from penstock.cli import completion
from penstock.cli.encoding import Encoding, MisfitError
from penstock.cli.output import Json, key_values, print_json, say
from penstock.cli.progress import bar
from penstock.cli.session import session
from penstock.errors import BadInput, NotFound
from penstock.wording import nearest_file, plural

if TYPE_CHECKING:
    from penstock.cli.progress import Bar
    from penstock.kafka.admin import Admin
    from penstock.kafka.connection import Connection
    from penstock.kafka.producer import Producer

_SHOW_EVERY = 1000


def produce(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="Topic to write to.", autocompletion=completion.topics)],
    file: Annotated[Path | None, typer.Argument(help="File to read; stdin if left out.")] = None,
    format_: Annotated[
        Literal["text", "json"], typer.Option("--format", help="text: a line is a value; json: a line must be JSON.")
    ] = "text",
    key: Annotated[str | None, typer.Option(help="Key of every record.")] = None,
    key_field: Annotated[str | None, typer.Option(help="Field of the JSON object that becomes the key.")] = None,
    header: Annotated[list[str] | None, typer.Option(help="Header of every record, NAME=VALUE.")] = None,
    partition: Annotated[int, typer.Option(min=-1, help="Write to this partition; by key if left out.")] = -1,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Records a second, at most.")] = None,
    skip: Annotated[int, typer.Option(min=0, help="Skip the first lines, to continue after an error.")] = 0,
    acks: Annotated[Literal["0", "1", "all"], typer.Option(help="Replicas that must have a record.")] = "all",
    schema: Annotated[
        Path | None,
        typer.Option(help="Schema of the values, .avsc, .proto or .json: lines are JSON, and are checked and encoded."),
    ] = None,
    key_schema: Annotated[Path | None, typer.Option(help="Schema of the keys.")] = None,
    registry: Annotated[
        str | None, typer.Option(help="Address of the schema registry; the project's if left out.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Send every line as one record; ends when all are acknowledged."""
    if key is not None and key_field is not None:
        raise BadInput("give --key or --key-field, not both")
    headers = list(key_values(header or [], "--header").items()) or None
    current = session(context)
    _look_for(current.admin(), topic, partition)
    encoding = Encoding.of(current, topic, schema, key_schema, registry)
    empty = 0
    with (
        _open(file) as source,
        _sending(current.connection(), acks) as producer,
        _shown(source, topic) as shown,
    ):
        started, read_bytes, total_bytes = time.monotonic(), 0, _size_bytes(source)
        for number, line in _lines(source, skip):
            read_bytes += len(line) + 1
            if not line:
                empty += 1
                continue
            try:
                record_key = _checked_key(line, key, key_field, must_be_json=format_ == "json")
                encoded_key, value = encoding.encoded(line, record_key)
            except (orjson.JSONDecodeError, _NoKeyError, _TooDeepError, MisfitError) as problem:
                producer.flush()
                raise BadInput(
                    f"line {number} {_complaint(problem, key_field)}",
                    safe=f"Before it, {plural(producer.sent, 'record')} acknowledged; after it, nothing was sent",
                    fix=f"Fix the line, then continue with: --skip {number - 1}"
                    if number > 1
                    else "Fix the line, then run it again",
                ) from None
            producer.send(topic, value, key=encoded_key, headers=headers, partition=partition)
            if shown is not None and producer.sent % _SHOW_EVERY == 0:
                shown.update(read_bytes, total_bytes, what=f"sending to {topic}: {producer.sent:,} records")
            if rate is not None:
                time.sleep(max(0.0, started + producer.sent / rate - time.monotonic()))
    say(_account(producer.sent, acks) + (f", {plural(empty, 'empty line')} left out" if empty else ""))
    if as_json:
        print_json({"topic": topic, "sent": producer.sent, "acknowledged": acks != "0", "empty_lines": empty})


def _look_for(admin: "Admin", topic: str, partition: int) -> None:
    """Raise `NotFound` unless the topic and the partition are there."""
    from penstock.kafka import topics

    try:
        count = topics.partition_count(admin, topic)
    except (NotFound, BadInput):  # a path is no name that a topic can have
        if not Path(topic).is_file():
            raise
        fix = f"Name the topic first: penstock produce TOPIC {topic}"
        raise NotFound(f"'{topic}' is a file, and there is no topic of that name", fix=fix) from None
    if partition >= count:
        raise NotFound(f"topic '{topic}' has no partition {partition}; it has 0 to {count - 1}")


@contextmanager
def _shown(source: BinaryIO, topic: str) -> "Iterator[Bar | None]":
    """Show the progress, or instructions to somebody who types records: nothing is drawn over what they type."""
    if source.isatty():
        say(f"type records for '{topic}', one per line; Ctrl-D ends")
        yield None
        return
    with bar(f"sending to {topic}", "bytes") as shown:
        yield shown


@contextmanager
def _sending(connection: "Connection", acks: Literal["0", "1", "all"]) -> "Iterator[Producer]":
    """Open a producer; after Ctrl-C, say what became of the records before it."""
    from penstock.kafka.producer import Producer, ProducerOptions

    producer = Producer(connection, ProducerOptions(acks=acks))
    try:
        with producer:
            yield producer
    except KeyboardInterrupt as interrupt:
        if not getattr(interrupt, "__notes__", []):  # else the producer has said which are not acknowledged
            interrupt.add_note(_account(producer.sent, acks))
        raise


def _account(sent: int, acks: str) -> str:
    return f"{plural(sent, 'record')} {'sent without acknowledgement' if acks == '0' else 'acknowledged'}"


class _NoKeyError(ValueError):
    """The JSON of a line has no such field."""


class _TooDeepError(ValueError):
    """The field is there, and cannot be written as a key."""


def _open(file: Path | None) -> BinaryIO:
    if file is None or str(file) == "-":
        return sys.stdin.buffer
    if file.is_dir():
        raise BadInput(f"{file} is a directory; a file with one record per line is needed")
    try:
        return file.open("rb")
    except FileNotFoundError:
        there = file.parent.iterdir() if file.parent.is_dir() else []
        raise NotFound(f"there is no file {file}", fix=nearest_file(file, there)) from None
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from None


def _size_bytes(source: BinaryIO) -> int | None:
    """Return how large a file is; None for a pipe, whose end is not in sight."""
    found = os.fstat(source.fileno())
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _lines(source: BinaryIO, skip: int) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(source, start=1):
        if number > skip:
            yield number, line.rstrip(b"\r\n")


def _checked_key(line: bytes, key: str | None, key_field: str | None, *, must_be_json: bool) -> str | None:
    """Return the record's key, and look at the line's JSON where that is asked for."""
    if key_field is None:
        if must_be_json:
            orjson.loads(line)
        return key
    document = orjson.loads(line)
    if not isinstance(document, dict) or document.get(key_field) is None:
        raise _NoKeyError
    value = document[key_field]
    try:
        return value if isinstance(value, str) else orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # reading goes deeper than writing
        raise _TooDeepError from None


def _complaint(problem: ValueError, key_field: str | None) -> str:
    if isinstance(problem, _NoKeyError):
        return f"has no field '{key_field}' for the key"
    if isinstance(problem, _TooDeepError):
        return f"cannot have the field '{key_field}' for its key, which is nested too deeply"
    if isinstance(problem, MisfitError):
        return f"cannot be sent: {problem}"
    return f"is not JSON: {problem}"
