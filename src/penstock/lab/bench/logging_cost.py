"""What a log record costs the program that logs it: our handler, with a real Kafka behind it, beside the stdlib's."""

import logging
import logging.handlers
import os
import queue
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from pydantic import BaseModel, Field

from penstock.errors import DeliveryFailed
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.positions import bounds
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.bench.throwaway_kafka import Step, one_node
from penstock.logging.handler import EventHandler, HandlerOptions
from penstock.transports.kafka import Kafka

_TOPIC = "bench.logs"
_PARTITIONS = 4
_BURST = 100
_US = 1000


class Line(BaseModel, frozen=True):
    """One contender."""

    contender: str = Field(description="Who.")
    records: int = Field(description="Records that were measured.")
    p50_us: float = Field(description="Microseconds that half of the calls took at most.")
    p99_us: float = Field(description="Microseconds that 99 of 100 calls took at most.")
    slowest_us: float = Field(description="The slowest call.")
    ratio: float = Field(description="Median beside StreamHandler.")


def run(home: Path, jar_folder: Path, *, records: int, rate: int, step: Step) -> list[Line]:
    """Log at an even rate on a throwaway cluster of one node; every record must be in the topic in the end."""
    with one_node(home, jar_folder, step) as cluster:
        connection = cluster.connection()
        topics.create(Admin(connection), _TOPIC, TopicSpec(partitions=_PARTITIONS))
        contenders: dict[str, Callable[[], AbstractContextManager[logging.Handler]]] = {
            "logging.StreamHandler to /dev/null": _stream,
            "logging.QueueHandler, then StreamHandler": _queue,
            "our EventHandler to Kafka": lambda: _ours(connection, records),
        }
        taken: dict[str, list[int]] = {}
        for number, (name, contender) in enumerate(contenders.items()):
            step(f"{name}: {records:,} records at {rate:,} a second", number, len(contenders))
            with contender() as handler:
                taken[name] = _timed(handler, records, rate)
        _require_all(connection, records)
    medians = {name: statistics.median(times) for name, times in taken.items()}
    plain = next(iter(medians.values()))
    return [_line(name, times, medians[name] / plain) for name, times in taken.items()]


@contextmanager
def _stream() -> Iterator[logging.Handler]:
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        handler = logging.StreamHandler(nowhere)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        yield handler


@contextmanager
def _queue() -> Iterator[logging.Handler]:
    waiting: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
    with _stream() as target:
        listener = logging.handlers.QueueListener(waiting, target)
        listener.start()
        yield logging.handlers.QueueHandler(waiting)
        listener.stop()


@contextmanager
def _ours(connection: Connection, records: int) -> Iterator[logging.Handler]:
    options = HandlerOptions(topic=_TOPIC, key="game_id", buffer_events=2 * records, flush_timeout_s=60.0)
    handler = EventHandler(lambda: Kafka(connection), options, server="the bench's Kafka")
    try:
        yield handler
    finally:
        handler.close()
    if handler.sent != records or handler.dropped:
        raise DeliveryFailed(f"{handler.sent} of {records} records were sent, {handler.dropped} dropped")


def _timed(handler: logging.Handler, records: int, rate: int) -> list[int]:
    """Time each call alone, in bursts: a program that logs does other things in between."""
    logger = logging.getLogger("penstock.lab.bench.logging")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.handlers = [handler]
    times: list[int] = []
    began = time.perf_counter()
    for number in range(records):
        extra = {"game_id": f"game-{number % 50}", "turn": number, "user": "USER001", "enemy": "USER002", "damage": 17}
        before = time.perf_counter_ns()
        logger.info("Attack Completed", extra=extra)
        times.append(time.perf_counter_ns() - before)
        if number % _BURST == _BURST - 1:
            time.sleep(max(0.0, began + (number + 1) / rate - time.perf_counter()))
    return times


def _require_all(connection: Connection, records: int) -> None:
    found = bounds(Admin(connection), [(_TOPIC, number) for number in range(_PARTITIONS)])
    count = sum(end - start for start, end in found.values())
    if count != records:
        raise DeliveryFailed(f"{count} of {records} records are in the topic")


def _line(name: str, times: list[int], ratio: float) -> Line:
    return Line(
        contender=name,
        records=len(times),
        p50_us=round(statistics.median(times) / _US, 1),
        p99_us=round(statistics.quantiles(times, n=100)[98] / _US, 1),
        slowest_us=round(max(times) / _US, 1),
        ratio=round(ratio, 2),
    )
