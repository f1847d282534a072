"""A pipeline's metrics for Prometheus."""

import threading
from pathlib import Path
from typing import Any, Self

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from penstock.delivery import gaps
from penstock.driver.paths import Progress
from penstock.errors import Conflict
from penstock.operate.metrics_page import MetricsPage
from penstock.operate.status import Status
from penstock.pipeline.metrics import Metrics

_BUCKETS_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 150, 600)


class MetricsServer:
    """One endpoint for one pipeline, as long as its driver runs. Counters begin at zero with each driver."""

    def __init__(self, spec: Metrics, status: Status, folder: Path) -> None:
        self._spec = spec
        self._status = status
        self._folder = folder
        self._registry = CollectorRegistry()
        self._pipeline = status.pipeline
        self._events = self._counter("events", "Events read.")
        self._dead = self._counter("dead_letters", "Dead letters written.")
        self._repeated = self._counter("repeated", "Records that a crash made come twice; in real time only.")
        self._rows = self._counter("sink_events", "Events by sink: written, dead or dropped.", "sink", "outcome")
        self._broken = self._counter("expectation_broken", "Rows that broke an expectation.", "rule")
        self._batches = self._counter("batches", "Batches.")
        self._messages = self._counter("handler_messages", "Messages that handlers got.")
        self._failed = self._counter("handler_failed", "Messages that failed.")
        self._retries = self._counter("handler_retries", "Calls of handlers beyond the first.")
        self._handled = self._counter("handler_batches", "Batches that handlers got.", "batcher", "trigger")
        self._spent = self._counter("handler_seconds", "Seconds spent in handlers.", "handler")
        self._seconds = Histogram(
            "penstock_batch_seconds",
            "How long batches took.",
            ["pipeline"],
            registry=self._registry,
            buckets=_BUCKETS_S,
        )
        self._stages = self._counter("batch_stage_seconds", "Seconds spent in each stage of batches.", "stage")
        self._lag = self._gauge("lag_events", "Events in the source that are not in every sink.")
        self._last = self._gauge("last_batch_timestamp_seconds", "When the last batch was done.")
        self._state = self._gauge("state", "1 for the state that the driver is in.", "state")
        self._state_rows = self._gauge("state_rows", "Rows in the state of a stateful pipeline.")
        self._gaps = self._gauge("gaps", "Gaps on record, ever.")

    def __enter__(self) -> Self:
        try:
            self._server = MetricsPage(self._spec.host, self._spec.port, self._registry)
        except OSError as error:
            raise Conflict(
                f"metrics cannot be served at {self._spec.host}:{self._spec.port}: {error.strerror}",
                safe="Nothing ran",
                fix="Set another `metrics.port`; 0 takes a free one",
            ) from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()
        self._status.metrics = f"http://{self._spec.host}:{self._server.server_port}/metrics"
        # What has not happened yet is zero, not unknown: whoever looks for an increase sees the first one, too.
        for each in (self._events, self._dead, self._batches):
            each.labels(self._pipeline)
        self._set_state()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.metrics = ""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"penstock_{name}", text, ["pipeline", *labels], registry=self._registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"penstock_{name}", text, ["pipeline", *labels], registry=self._registry)

    def on_progress(self, progress: Progress) -> None:
        """Take a batch into account."""
        name = self._pipeline
        self._set_state()
        self._repeated.labels(name).inc(progress.repeated)
        report = progress.report
        if report is None:
            return
        self._events.labels(name).inc(report.read)
        self._dead.labels(name).inc(report.dead)
        self._batches.labels(name).inc()
        self._seconds.labels(name).observe(report.seconds)
        self._lag.labels(name).set(progress.lag)
        self._last.labels(name).set_to_current_time()
        if report.state_rows is not None:
            self._state_rows.labels(name).set(report.state_rows)
        for sink, count in report.sinks.items():
            for outcome in ("written", "dead", "dropped"):
                self._rows.labels(name, sink, outcome).inc(getattr(count, outcome))
        for rule, broken in report.rules.items():
            self._broken.labels(name, rule).inc(broken)
        for stage, seconds in report.stages.items():
            self._stages.labels(name, stage).inc(seconds)
        self._count_handlers(report.handlers)

    def _set_state(self) -> None:
        for state in ("starting", "running", "waiting"):
            self._state.labels(self._pipeline, state).set(state == self._status.state)
        self._gaps.labels(self._pipeline).set(len(gaps.read(self._folder)))

    def _count_handlers(self, counts: dict[str, Any]) -> None:
        if not counts:
            return
        name = self._pipeline
        self._messages.labels(name).inc(counts.get("messages", 0))
        self._failed.labels(name).inc(counts.get("failed", 0))
        self._retries.labels(name).inc(counts.get("retries", 0))
        for batcher, triggers in counts.get("batches", {}).items():
            for trigger, count in triggers.items():
                self._handled.labels(name, batcher, trigger).inc(count)
        for handler, seconds in counts.get("seconds", {}).items():
            self._spent.labels(name, handler).inc(seconds)
