"""A driver process: Spark, the runner, signals, and the status that others read."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from penstock.config.settings import Settings
from penstock.driver import session
from penstock.driver.paths import PipelinePaths, Progress
from penstock.driver.runner import Runner
from penstock.errors import interruption_in
from penstock.jvm import jars
from penstock.operate import belonging
from penstock.operate.history import RunRecord
from penstock.operate.known_pipelines import paths_of
from penstock.operate.lineage_report import LineageReport
from penstock.operate.status import SinkTotals, Status, saved
from penstock.pipeline.spec import PipelineSpec
from penstock.private import make_private
from penstock.record.target import Target
from penstock.schemas.registry import with_registry

if TYPE_CHECKING:
    from penstock.driver.realtime import RealtimeRunner
    from penstock.driver.stateful import StatefulRunner

MASTER = "local[*,4]"
AnyRunner: TypeAlias = "Runner | StatefulRunner | RealtimeRunner"
Show = Callable[[Status], None]


def make_runner(
    spec: PipelineSpec,
    settings: Settings,
    file: Path,
    master: str = MASTER,
    paths: PipelinePaths | None = None,
    *,
    will_run: bool = False,
    any_cluster: bool = False,
) -> AnyRunner:
    """Make what runs a pipeline; entering it takes the lock, unless `paths` is held. A rebuild accepts any cluster.

    With `will_run`, entering it also launches Spark's JVM if there is something to read.
    """
    spec = with_registry(spec, settings.registry)
    paths, base = paths or paths_of(settings, spec.name), file.resolve().parent
    if spec.is_stateful:
        from penstock.driver.stateful import StatefulRunner

        delta = jars.ensure("delta", settings.jars)
        return StatefulRunner(spec, paths, session.starter(spec, paths.logs, master, delta), base)
    if spec.speed == "realtime":
        from penstock.driver.realtime import RealtimeRunner

        kafka = jars.ensure("spark-kafka", settings.jars)
        # A core for each partition, whatever the machine has: most of the time they wait.
        master = "local[16]" if master == MASTER else master
        return RealtimeRunner(spec, settings.connection(), paths, session.starter(spec, paths.logs, master, kafka))
    start = session.starter(spec, paths.logs, master)
    launch = start.launch if will_run else None
    return Runner(spec, settings.connection(), paths, start, base, any_cluster=any_cluster, launch_spark=launch)


def run(
    spec: PipelineSpec,
    settings: Settings,
    file: Path,
    *,
    show: Show,
    master: str = MASTER,
    stopping: threading.Event | None = None,
) -> Status:
    """Run a pipeline in this process until it has caught up, is stopped, or fails, and keep its status.

    It is stopped by a signal, which only a main thread can get, or by setting `stopping`.
    """
    paths = paths_of(settings, spec.name)
    make_private(paths.folder)
    status = Status(pipeline=spec.name, state="starting", pid=os.getpid(), file=str(file.resolve()))
    runner: AnyRunner | None = None
    is_open = False
    shows_jobs = spec.spark.get("spark.ui.enabled") == "true"
    listeners: list[Callable[[Progress], None]] = []

    def on_progress(progress: Progress) -> None:
        account(status, progress)
        if shows_jobs and not status.spark_ui:
            status.spark_ui = session.ui_address()
        status.save(paths.folder)
        show(status)
        paths.roll_logs_over()
        for listener in listeners:
            listener(progress)

    def stop() -> None:
        if runner is not None:
            runner.stopping.set()
        if not is_open or session.is_starting():
            # There is no batch to finish yet, and whatever else is under way survives a kill.
            raise KeyboardInterrupt

    with (
        ExitStack() as reports,  # the outermost: it says how the run ended
        _on_signal(stop),
        paths.locked(spec.name) as held,
        ExitStack() as on_record,
    ):
        # Before anything is on record: the status is that of the pipeline whose name this is.
        belonging.require_own_name(paths.folder, spec.name, file)
        record = on_record.enter_context(_on_record(status, settings.home, paths.folder))
        belonging.write_file(paths.folder, file)
        listeners.append(record.batch)
        runner = make_runner(spec, settings, file, master, held, will_run=True)
        runner.stopping = stopping or runner.stopping
        wanted = settings.project.lineage
        # A pipeline that reads the reports would have something new to report for ever.
        if wanted is not None and not spec.source.reads(Target("topic", wanted.topic)):
            report = reports.enter_context(LineageReport(wanted, runner, settings.connection, status))
            listeners.append(report.batch)
        with ExitStack() as stack, belonging.other_home_named(spec.name, file, settings.home):
            if spec.metrics is not None:
                from penstock.operate.metrics import MetricsServer

                metrics = stack.enter_context(MetricsServer(spec.metrics, status, paths.folder))
                listeners.append(metrics.on_progress)
            stack.enter_context(runner)
            belonging.write_sinks(paths.folder, file, spec.sink_names)
            is_open, status.reason = True, ""
            status.save(paths.folder)
            show(status)
            with session.death_named():
                runner.run(on_progress)
            status.end("stopped" if runner.stopping.is_set() else "finished")
    return status


@contextmanager
def _on_record(status: Status, home: Path, folder: Path) -> Iterator[RunRecord]:
    """Record its start and end while the lock is held, so that the next driver's status comes after."""
    record, last = RunRecord(home, status), saved(folder)
    if last is not None and last.state == "failed":
        status.reason = f"the last driver failed: {last.reason}"
    try:
        status.save(folder)
        yield record
    except KeyboardInterrupt:
        status.end("stopped")
    except Exception as error:
        if interruption_in(error) is None:
            status.fail(error)
            raise
        status.end("stopped")
    finally:
        status.save(folder)
        record.end()


@contextmanager
def _on_signal(stop: Callable[[], None]) -> Iterator[None]:
    # Python lets only the main thread handle signals; a program that runs a pipeline in another one has its own way.
    numbers = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, lambda *_: stop()) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def account(status: Status, progress: Progress) -> None:
    """Add a batch to the totals."""
    report = progress.report
    status.repeated += progress.repeated
    if progress.waiting_for:
        status.state, status.reason = "waiting", progress.waiting_for
    elif progress.is_idle:
        status.state, status.reason, status.lag = "running", "", progress.lag
    else:
        status.lag = progress.lag
    if report is None:
        return
    status.state, status.reason = "running", ""
    status.batch = report.batch
    status.batches += 1
    status.events += report.read
    status.dead += report.dead
    status.batch_seconds = round(report.seconds, 3)
    status.events_per_s = round(report.read / report.seconds) if report.seconds else 0
    for name, count in report.sinks.items():
        totals = status.sinks.setdefault(name, SinkTotals())
        totals.read += count.read
        totals.written += count.written
        totals.dead += count.dead
        totals.dropped += count.dropped
    for rule, broken in report.rules.items():
        status.rules[rule] = status.rules.get(rule, 0) + broken
