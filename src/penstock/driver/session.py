"""The Spark session that pipelines run in.

Clients of Spark's ports have to know a secret, because whatever they send is deserialised. On this machine alone
(`local[...]`) Spark makes one up for each driver, and listens on the loopback only. A cluster has its own, which
`spark.authenticate.secret` names, and network traffic is encrypted. No setting is on a command line, and no secret on a
disk: the running JVM gets secrets over the gateway.
"""

import atexit
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil

from penstock.driver import class_archive
from penstock.driver.paths import SPARK_CONSOLE
from penstock.errors import BadInput, BatchAborted, SparkDied
from penstock.interpreter import SAFE_PATH
from penstock.jvm.java import find_java
from penstock.jvm.launch import Jvm
from penstock.jvm.log4j import log4j_properties
from penstock.loopback import is_loopback
from penstock.secret import Secret, holds_secret

if TYPE_CHECKING:
    from socketserver import BaseServer

    from pyspark.sql import SparkSession

    from penstock.pipeline.spec import PipelineSpec

_END_S = 120.0
_DEATH_SHOWS_S = 2.0
_LOOPBACK = "127.0.0.1"
_MASTER = re.compile(r"(local(-cluster)?(\[.*\])?|yarn)$|(spark|k8s)://.")
_OUT_OF_MEMORY = 3
# A socket's path has at most 103 characters everywhere; the JVM's folder and Spark's name in it take 73 of them.
_LONGEST_TEMPORARY_FOLDER = 30
# It warns of every key that is new to a stateful pipeline, as if its state had been lost.
_TALKATIVE = {"org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkStateServer": "error"}
NOT_COMPILED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings for interpreting SQL: for a few rows that is faster than compiling it."""
_starting = threading.Event()
_launched: Jvm | None = None
"""A JVM that nobody is connected to yet."""


@contextmanager
def _being_started() -> Iterator[None]:
    """Mark the time in which Spark starts, and leave neither a half-started JVM nor PySpark's handler of Ctrl-C."""
    handler = signal.getsignal(signal.SIGINT)
    before = set(psutil.Process().children(recursive=True))
    _starting.set()
    try:
        yield
    except BaseException:
        for process in set(psutil.Process().children(recursive=True)) - before:
            with suppress(psutil.Error):
                process.kill()
        end_launched()
        raise
    finally:
        _starting.clear()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


class Starter:
    """Starts Spark for one pipeline: the JVM as soon as it is sure to be needed, the session when it is.

    Spark's log is in `folder`. `local[N,4]`: a task may fail three times before its job does; plain `local[N]` gives it
    one try. `overrides` are settings of the user's, which take precedence over ours. `has_workers` says whether steps
    run in Spark's Python workers, too.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        master: str = "local[*,4]",
        jars: Sequence[Path] = (),
        java_options: str | None = None,
        overrides: Mapping[str, str] | None = None,
        has_workers: bool = True,
    ) -> None:
        if _MASTER.match(master) is None:
            # Java says so by ending, which looks like an outage and would be waited for.
            raise BadInput(
                f"'{master}' is no master of Spark's",
                safe="Nothing ran",
                fix="Say local[*,4], spark://host:port, yarn or k8s://host:port",
            )
        self._name = name
        self._folder = folder
        self._master = master
        self._jars = jars
        self._java_options = java_options
        self._overrides = overrides or {}
        self._has_workers = has_workers

    @cached_property
    def _settings(self) -> dict[str, str]:
        java, _ = find_java()
        os.environ["JAVA_HOME"] = str(Path(java).resolve().parent.parent)
        # Workers must be this Python: they unpickle our classes.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        folder, options = self._folder, self._java_options
        folder.mkdir(parents=True, exist_ok=True)
        log_settings = folder / "log4j2.properties"
        log_text = log4j_properties(folder / "spark.log", level="warn", files=3, quiet=_TALKATIVE)
        log_settings.write_text(log_text, encoding="utf-8")
        settings = {
            "spark.app.name": f"penstock-{self._name}",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log_settings} -Dderby.system.home={folder}"
            f" -XX:+ExitOnOutOfMemoryError {class_archive.options(java) if options is None else options}",
            "spark.python.daemon.module": "penstock.worker.daemon",
            **{f"spark.executorEnv.{name}": value for name, value in SAFE_PATH.items()},
            "spark.authenticate": "true",
            "spark.ui.enabled": "false",
            # Its pages ask nobody who they are: everybody on this machine, and pages of other sites, could end jobs.
            "spark.ui.killEnabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "4",
            # What stands twice would be evaluated once, before everything else: also where AND keeps it from being
            # evaluated at all, and outside our attempt, so that one row that it fails on would fail the job.
            "spark.sql.subexpressionElimination.enabled": "false",
            "spark.sql.alwaysInlineCommonExpr": "true",  # the same for the operands of BETWEEN and NULLIF
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
            "spark.local.dir": str(folder / "spark-local"),
            "spark.redaction.regex": "(?i)secret|pass|pwd|token|cred|[a-z][._-]?key|jaas|[.]sas([.]|$)"
            "|connection[._-]?string",
        }
        if self._jars:
            settings["spark.jars"] = ",".join(map(str, self._jars))
        if any("delta-spark" in jar.name for jar in self._jars):
            settings |= {
                "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
                "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
                "spark.databricks.delta.snapshotPartitions": "4",  # 50 by default: tasks for a table's log, each look
            }
        if self._master.startswith("local") and len(tempfile.gettempdir()) <= _LONGEST_TEMPORARY_FOLDER:
            # Over TCP each task waits 40 ms for its work: the JVM holds a small packet back until the one before is
            # acknowledged, which a loopback connection takes its time with. These are in the JVM's private folder.
            settings["spark.python.unix.domain.socket.enabled"] = "true"
        if is_on_this_machine(self._master):
            os.environ["SPARK_LOCAL_IP"] = _LOOPBACK  # by nothing else do Spark's web pages know where to listen
        overrides = revealed(self._overrides)
        return settings | {"spark.master": self._master} | over_the_network(self._master, overrides) | overrides

    def launch(self) -> None:
        """Launch the JVM without waiting for it, unless this process has one; an unused one ends with the process."""
        with _being_started():
            self._launch()

    def _launch(self) -> None:
        global _launched  # noqa: PLW0603 - a process has one JVM, as it is with PySpark
        if _gateway() is None and _launched is None:
            _launched = Jvm(self._settings, self._folder / SPARK_CONSOLE)
            atexit.register(end_launched)

    @_being_started()
    def __call__(self) -> "SparkSession":
        """Start Spark, or use the one that this process has."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkRuntimeError

        # PySpark repeats on stderr what it raises, as JSON; what it raises is handled.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        logging.getLogger().addFilter(_is_not_of_py4j)
        try:
            self._launch()
            if self._has_workers:
                import pandas  # noqa: F401 - every batch needs it; here the time is free, for the JVM is not up yet
            spark = _started(self._settings)
        except (Py4JError, PySparkRuntimeError) as error:
            if "spark.authenticate.secret" in str(error):
                raise BadInput(
                    f"Spark at {self._master} needs the cluster's secret, which the pipeline file does not name",
                    safe="Nothing ran",
                    fix="Add it to `spark`, as in `spark.authenticate.secret: env:NAME`; for a cluster that has none,"
                    ' on a network that only you are on, `spark.authenticate: "false"`',
                ) from None
            reason = next(line for line in str(error).splitlines() if line.strip())
            raise BatchAborted(
                f"Spark does not start at {self._master}: {reason[:300]}",
                safe="Nothing ran",
                fix=f"Read more in {self._folder / 'spark.log'}",
            ) from None
        atexit.register(_end, spark)
        return spark


def start(
    name: str,
    folder: Path,
    *,
    master: str = "local[*,4]",
    jars: Sequence[Path] = (),
    java_options: str | None = None,
    overrides: Mapping[str, str] | None = None,
) -> "SparkSession":
    """Start Spark now."""
    return Starter(name, folder, master=master, jars=jars, java_options=java_options, overrides=overrides)()


def end_launched() -> None:
    """End a JVM that was launched and is not used."""
    global _launched
    jvm, _launched = _launched, None
    if jvm is not None:
        jvm.end()


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Leave out the tracebacks that Py4J writes to stderr, besides raising, when the JVM ends during a call."""
    return not (record.name == "root" and "py4j" in record.pathname)


def is_on_this_machine(master: str) -> bool:
    """Return whether everything that Spark runs there is on this machine."""
    return master.startswith("local") or is_loopback(urlsplit(master).hostname or "")


def over_the_network(master: str, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return where Spark listens and whether what it sends is encrypted; the user's overrides come on top."""
    if is_on_this_machine(master):
        # Executors elsewhere have to find the driver; those of this machine need no open port.
        return {"spark.driver.bindAddress": _LOOPBACK, "spark.driver.host": _LOOPBACK}
    # The key comes from the secret: Spark refuses to encrypt without one.
    is_authenticated = overrides.get("spark.authenticate", "true").lower() == "true"
    return {"spark.network.crypto.enabled": "true"} if is_authenticated else {}


def starter(spec: "PipelineSpec", folder: Path, master: str, jars: Sequence[Path] = ()) -> Starter:
    """Return the starter of Spark for a pipeline, to be called when there is something to do."""
    return Starter(spec.name, folder, master=master, jars=jars, overrides=spec.spark)


def is_starting() -> bool:
    """Return whether Spark is being started right now: nothing runs in it yet, so it may be interrupted."""
    return _starting.is_set()


@contextmanager
def death_named() -> Iterator[None]:
    """Turn whatever fails because Spark's JVM has ended into `SparkDied`, which says how it ended."""
    try:
        yield
    except BadInput:
        raise  # says what is wrong; the JVM that was launched for it was ended by ourselves since
    except Exception as error:
        ended = _jvm_ended(error)
        if ended is None:
            raise
        raise SparkDied(
            f"Spark's JVM ended while the pipeline ran: {ended}",
            safe="Nothing is lost or duplicated: the next start continues where this one stopped",
            fix="If it needs more memory, give it more with `spark.driver.memory` in the pipeline file",
        ) from None


def ui_address() -> str:
    """Return the address of Spark's UI; empty before Spark runs, and without spark.ui.enabled."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # noqa: SLF001 - nothing public has it
    return "" if context is None else context.uiWebUrl or ""


def has_died() -> bool:
    """Return whether this process had a JVM that has ended."""
    process = _jvm()
    return process is not None and process.poll() is not None


def _gateway() -> Any:
    """Return PySpark's way to the JVM of this process; None if there is none, without importing PySpark to say so."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    return SparkContext._gateway  # noqa: SLF001 - nothing public has it


def _jvm() -> "subprocess.Popen[bytes] | None":
    return getattr(_gateway(), "proc", None)


def _jvm_ended(error: Exception) -> str | None:
    """Return how the JVM ended; None if it runs, or never did."""
    from py4j.protocol import Py4JError

    process = _jvm()
    if process is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        # Its connections break a moment before the system says that it has ended.
        process.wait(_DEATH_SHOWS_S if isinstance(error, Py4JError | ConnectionError | BatchAborted) else 0)
    code = process.poll()
    if code is None:
        return None
    if code < 0:
        return f"killed by signal {-code}"
    return "out of memory" if code == _OUT_OF_MEMORY else f"exit code {code}"


def _started(settings: Mapping[str, str]) -> "SparkSession":
    global _launched  # noqa: PLW0603
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if _launched is not None:
        SparkContext._ensure_initialized(gateway=_launched.gateway())  # noqa: SLF001 - PySpark's own launches another
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    _launched = None
    hush_end_of_jvm(spark.sparkContext._accumulatorServer)  # noqa: SLF001 - nothing public leads to it
    return spark


def hush_end_of_jvm(server: "BaseServer") -> None:
    """Leave out the traceback of PySpark's server of counters when the JVM is gone: that is reported elsewhere."""

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            type(server).handle_error(server, request, client_address)

    server.handle_error = handle_error  # type: ignore[method-assign]


def guard_callbacks(spark: "SparkSession") -> None:
    """Let only the JVM call back into this process; PySpark starts the server for that without a token."""
    from py4j.java_gateway import JavaObject
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - nothing public has the token
    token = gateway.java_parameters.auth_token
    gateway.python_parameters.auth_token = token
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    # Py4J's client forgets its own token when it gets the port, and has no way to set it again.
    field = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    field.setAccessible(True)
    server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)  # noqa: SLF001
    field.set(server.getCallbackClient(), token)


def revealed(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return settings with their secrets resolved."""
    return {name: Secret.parse(value).reveal() if holds_secret(name) else value for name, value in overrides.items()}


def has_jvm() -> bool:
    """Return whether this process has a JVM already."""
    return _jvm() is not None


def use_here(spark: "SparkSession") -> None:
    """Make this thread use a session that another thread has created."""
    from pyspark.sql import SparkSession

    java: Any = SparkSession._get_j_spark_session_class(spark._jvm)  # noqa: SLF001
    java.setActiveSession(spark._jsparkSession)  # noqa: SLF001


def end_at_once() -> None:
    """Kill this process's JVM, whose clean shutdown takes a second: for one that has nothing left to write."""
    process = _jvm()
    if process is not None:
        process.kill()
        process.wait(_END_S)


def _end(spark: "SparkSession") -> None:
    """Stop Spark, its workers and its JVM before this process ends: a command leaves nothing running behind it."""
    process = getattr(spark.sparkContext._gateway, "proc", None)  # noqa: SLF001 - nothing public ends the JVM
    # Whatever is wrong with a Spark that is being given up does not matter any more.
    with suppress(Exception):
        spark.stop()
    if process is not None and process.poll() is None:
        process.stdin.close()
        process.wait(_END_S)
