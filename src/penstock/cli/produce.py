"""penstock produce: lines from stdin or a file into a topic."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import orjson
import typer

from penstock.cli import completion
from penstock.cli.output import Json, key_values, print_json, say
from penstock.cli.progress import bar
from penstock.cli.session import session
from penstock.errors import BadInput, NotFound

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
    skip: Annotated[int, typer.Option(min=0, help="Leave out the first lines, to go on after an error.")] = 0,
    acks: Annotated[Literal["0", "1", "all"], typer.Option(help="Replicas that must have a record.")] = "all",
    as_json: Json = False,
) -> None:
    """Send every line as one record; ends when all are acknowledged."""
    from penstock.kafka import topics
    from penstock.kafka.producer import Producer, ProducerOptions

    if key is not None and key_field is not None:
        raise BadInput("say --key or --key-field, not both")
    headers = list(key_values(header or [], "--header").items()) or None
    current = session(context)
    count = topics.partition_count(current.admin(), topic)
    if partition >= count:
        raise NotFound(f"topic '{topic}' has no partition {partition}; it has 0 to {count - 1}")
    empty = 0
    with (
        _open(file) as source,
        bar(f"sending to {topic}") as shown,
        Producer(current.connection(), ProducerOptions(acks=acks)) as producer,
    ):
        started = time.monotonic()
        for number, line in _lines(source, skip):
            if not line:
                empty += 1
                continue
            try:
                record_key = _checked_key(line, key, key_field, must_be_json=format_ == "json")
            except (orjson.JSONDecodeError, _NoKeyError, _TooDeepError) as problem:
                producer.flush()
                raise BadInput(
                    f"line {number} {_complaint(problem, key_field)}",
                    safe=f"The {producer.sent} record(s) before it are acknowledged, nothing after it was sent",
                    fix=f"Fix the line, then go on with: --skip {number - 1}",
                ) from None
            producer.send(topic, line, key=record_key, headers=headers, partition=partition)
            if producer.sent % _SHOW_EVERY == 0:
                shown.update(producer.sent, producer.sent)
            if rate is not None:
                time.sleep(max(0.0, started + producer.sent / rate - time.monotonic()))
    word = "sent without acknowledgement" if acks == "0" else "acknowledged"
    say(f"{producer.sent} record(s) {word}" + (f", {empty} empty line(s) left out" if empty else ""))
    if as_json:
        print_json({"topic": topic, "sent": producer.sent, "acknowledged": acks != "0", "empty_lines": empty})


class _NoKeyError(ValueError):
    """The JSON of a line has no such field."""


class _TooDeepError(ValueError):
    """The field is there, and cannot be written as a key."""


def _open(file: Path | None) -> BinaryIO:
    if file is None or str(file) == "-":
        return sys.stdin.buffer
    if file.is_dir():
        raise BadInput(f"{file} is a directory, and a file with lines belongs there")
    try:
        return file.open("rb")
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}") from None
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from None


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
    return f"is not JSON: {problem}"
