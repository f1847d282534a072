"""Pipelines report themselves: what they read and wrote, sent to Kafka as OpenLineage events.

Guarantee: a report never holds a pipeline up and never fails it. Events wait in a short queue for a thread that sends
them; what does not fit in, and what Kafka does not take within seconds at the end, is left out, and counted in one
warning.
"""

import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Self

import orjson

from penstock.clock import clock
from penstock.config.project import LineageReports
from penstock.driver.column_lineage import MadeColumns
from penstock.driver.paths import Progress
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.topic_spec import TopicSpec
from penstock.operate.lineage_events import Dataset, Event, PipelineEvents, Written
from penstock.operate.status import Status
from penstock.record.target import Target

if TYPE_CHECKING:
    from penstock.operate.driver import AnyRunner

_MOST_WAITING = 1000
_LAST_CHANCE_S = 3.0
_GIVE_UP_MS = 10_000
_ENDS = {"finished": "COMPLETE", "stopped": "COMPLETE", "failed": "FAIL"}


class LineageReport:
    """The reports of one run of a driver."""

    def __init__(
        self, options: LineageReports, runner: "AnyRunner", connect: Callable[[], Connection], status: Status
    ) -> None:
        self._options = options
        self._runner = runner
        self._spec = runner.spec
        self._connect = connect
        self._status = status
        self._events = PipelineEvents(runner.spec, options.namespace, clock().now())
        self._waiting: queue.Queue[Event | None] = queue.Queue(_MOST_WAITING)
        self._left_out = 0
        self._reason = ""
        self._sender = threading.Thread(target=self._send, name="lineage", daemon=True)

    def __enter__(self) -> Self:
        self._sender.start()
        self._put(self._events.run("START", clock().now()))
        return self

    def __exit__(self, *_: object) -> None:
        self._put(self._events.run(_ENDS.get(self._status.state, "ABORT"), clock().now(), self._status.reason))
        self._put(None)
        self._sender.join(_LAST_CHANCE_S)
        with suppress(queue.Empty):
            while True:
                self._left_out += self._waiting.get_nowait() is not None
        if self._left_out:
            reason = self._reason or "Kafka did not take them in time"
            text = f"warning: {self._left_out} lineage events of pipeline '{self._spec.name}' were not sent: {reason}"
            print(text, file=sys.stderr)  # noqa: T201 - a driver says so where its other warnings are

    def batch(self, progress: Progress) -> None:
        """Report a batch; problems with the report do not affect the pipeline."""
        if progress.report is None:
            return
        try:
            topic_names = sorted({each.topic for each in progress.report.starts if each.in_kafka})
            sources = [Target("topic", name) for name in topic_names] or self._spec.source.targets()
            event = self._events.batch(
                progress.report, clock().now(), [self._dataset(each) for each in sources], self._written, self._made
            )
        except Exception as error:  # noqa: BLE001 - see the guarantee
            self._left_out, self._reason = self._left_out + 1, f"{type(error).__name__}: {error}"
            return
        self._put(event)

    @cached_property
    def _made(self) -> MadeColumns | None:
        """The columns, worked out with the first batch, when Spark runs."""
        return self._runner.made_columns()

    @cached_property
    def _written(self) -> list[Written]:
        """Return what the sinks write to; targets that cannot be named are not reported."""
        sinks = zip(self._spec.sink_names, self._spec.sinks, strict=True)
        named = [(name, sink.target()) for name, sink in sinks]
        return [Written(name, self._dataset(target)) for name, target in named if target is not None]

    def _dataset(self, target: Target) -> Dataset:
        return Dataset.of(target, self._connect().bootstrap_servers)

    def _put(self, event: Event | None) -> None:
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            self._left_out, self._reason = self._left_out + 1, "Kafka takes them too slowly"

    def _send(self) -> None:
        sent, acknowledged = 0, [0]

        def delivered(error: object, _: object) -> None:
            if error is None:
                acknowledged[0] += 1
            else:
                self._reason = str(error)

        try:
            connection = self._connect()
            topics.ensure(Admin(connection), self._options.topic, TopicSpec())
            options = ProducerOptions(delivery_timeout_ms=_GIVE_UP_MS)
            with Producer(connection, options, on_delivery=delivered) as producer:
                while (event := self._waiting.get()) is not None:
                    key = f"run:{event['job']['namespace']}/{self._spec.name}"
                    producer.send(self._options.topic, orjson.dumps(event), key=key)
                    sent += 1
        except Exception as error:  # noqa: BLE001 - see the guarantee
            self._reason = f"{type(error).__name__}: {error}"
        self._left_out += sent - acknowledged[0]
