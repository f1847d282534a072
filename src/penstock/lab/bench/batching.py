"""What batching is worth: the same events into PostgreSQL one by one and in batches, in one run."""

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, Field

from penstock.lab.bench.throwaway import running
from penstock.lab.bench.throwaway_kafka import Step
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.record.columns import COORDINATES, RESERVED
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.postgres import Postgres, PostgresSink
from penstock.sinks.postgres_server import Server
from penstock.sinks.sink import Staged

_BATCH = 1000
_SCHEMA = pa.schema(
    [("id", pa.int64()), ("customer", pa.string()), ("price", pa.float64()), ("note", pa.string())]
    + [RESERVED.field(name) for name in COORDINATES]
)


class Line(BaseModel, frozen=True):
    """One contender."""

    contender: str = Field(description="Who.")
    events_per_s: int = Field(description="Median over the rounds.")
    slowest: int = Field(description="Slowest round.")
    fastest: int = Field(description="Fastest round.")
    ratio: float = Field(description="Median beside one INSERT and one commit an event.")


def run(*, events: int, rounds: int, step: Step) -> list[Line]:
    """Measure on a throwaway server that flushes each commit to disk, as a real one does."""
    with running(partial(RunningPostgres, durable=True)) as postgres:
        contenders: dict[str, Callable[[Server], None]] = {
            "psycopg, one INSERT and commit an event": lambda server: _inserts(postgres, server, events),
            "our sink, one event a batch": lambda server: _batches(server, events, 1),
            f"our sink, batches of {_BATCH:,}": lambda server: _batches(server, events, _BATCH),
        }
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        for number in range(rounds + 1):
            for turn, (name, contender) in enumerate(contenders.items()):
                done = number * len(contenders) + turn
                step(f"round {number} of {rounds}: {name}", done, (rounds + 1) * len(contenders))
                server = postgres.database("bench")
                began = time.perf_counter()
                contender(server)
                seconds[name].append(time.perf_counter() - began)
                _require_all(postgres, server, events)
    medians = {name: statistics.median(kept[1:]) for name, kept in seconds.items()}
    slow = next(iter(medians.values()))
    return [
        Line(
            contender=name,
            events_per_s=round(events / median),
            slowest=round(events / max(seconds[name][1:])),
            fastest=round(events / min(seconds[name][1:])),
            ratio=round(slow / median, 1),
        )
        for name, median in medians.items()
    ]


def _event(number: int) -> dict[str, Any]:
    coordinates = {"_topic_id": "bench", "_partition": 0, "_offset": number}
    return {"id": number, "customer": f"c{number % 997}", "price": number / 7, "note": "x" * 100, **coordinates}


def _inserts(postgres: RunningPostgres, server: Server, events: int) -> None:
    columns = ", ".join(f'"{field.name}"' for field in _SCHEMA)
    with postgres.connect(server.database) as connection:
        connection.execute(
            "CREATE TABLE events (id bigint, customer text, price float8, note text,"
            " _topic_id text, _partition int, _offset bigint)"
        )
        connection.commit()
        for number in range(events):
            values = list(_event(number).values())
            connection.execute(f"INSERT INTO events ({columns}) VALUES (%s, %s, %s, %s, %s, %s, %s)", values)  # noqa: S608
            connection.commit()


def _batches(server: Server, events: int, size: int) -> None:
    """Let the sink do for each batch what a pipeline lets it do: stage, prepare, commit with the position."""
    sink = PostgresSink(Postgres(table="events", server=server), "postgres", "bench")
    sink.open(_SCHEMA)
    source_partition, position = SourcePartition("bench", "bench", 0), None
    try:
        for start in range(0, events, size):
            offset_range = OffsetRange(source_partition, start, min(start + size, events))
            rows = [_event(number) for number in range(offset_range.start, offset_range.end)]
            stager = sink.stager()(offset_range)
            stager.write(
                pa.RecordBatch.from_pylist(rows, schema=_SCHEMA), pa.array(range(offset_range.start, offset_range.end))
            )
            sink.prepare([Staged(offset_range, len(rows), stager.finish())], {source_partition: position})
            sink.commit()
            position = offset_range.end
    finally:
        sink.close()


def _require_all(postgres: RunningPostgres, server: Server, events: int) -> None:
    with postgres.connect(server.database) as connection:
        found = connection.execute("SELECT count(*), count(DISTINCT id) FROM events").fetchone()
    if found != (events, events):
        raise RuntimeError(f"{found} rows instead of {events}")
