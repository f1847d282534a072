"""A standalone Spark cluster from the installed PySpark: a master and workers, each a process of its own.

Who talks to it has to know its secret, which is in a private file.
"""

import os
import re
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyspark

from penstock.errors import BatchAborted
from penstock.jvm.java_properties import properties_text
from penstock.private import write_private

_CLASSES = "org.apache.spark.deploy"
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_KEY = "secret"
_SETTINGS = "spark.properties"
_START_S = 60.0
_END_S = 30
_LOOK_EVERY_S = 0.1


@dataclass
class SparkCluster:
    """A running master with its workers."""

    folder: Path
    master: str = ""
    workers: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def settings(self) -> dict[str, str]:
        """What a pipeline file says under `spark` to be let in."""
        return {"spark.authenticate.secret": f"file:{self.folder / _KEY}"}

    def kill_a_worker(self) -> None:
        """Kill a worker and its executors, as a machine that goes down does."""
        worker = next(each for each in self.workers if each.poll() is None and _children(each.pid))
        for process in [psutil.Process(worker.pid), *_children(worker.pid)]:
            process.kill()
        worker.wait(_END_S)

    @property
    def is_working(self) -> bool:
        """Return whether every worker has an executor whose Python runs."""
        return all(any("python" in child.name() for child in _children(each.pid)) for each in self.workers)


@contextmanager
def running(folder: Path, workers: int = 2) -> Iterator[SparkCluster]:
    """Start a cluster on free ports of the loopback, and end all that it started."""
    folder.mkdir()
    cluster = SparkCluster(folder)
    secret = secrets.token_hex(32)
    write_private(folder / _KEY, secret.encode())
    settings = {"spark.authenticate": "true", "spark.authenticate.secret": secret}
    write_private(folder / _SETTINGS, properties_text(settings).encode("ascii"))
    with ExitStack() as stack:
        common = ["--host", "127.0.0.1", "--webui-port", "0", "--properties-file", str(folder / _SETTINGS)]
        options = [*common, "--port", "0"]
        log = _start(stack, folder / "master.log", "master.Master", options)[1]

        def master_is_up() -> bool:
            found = _MASTER.search(log.read_text(encoding="utf-8"))
            cluster.master = found[1] if found else ""
            return found is not None

        _wait_for("Spark's master", master_is_up, log)
        for number in range(workers):
            work = folder / f"worker-{number}"
            options = [*common, "--cores", "1", "--memory", "1g"]
            options += ["--work-dir", str(work), cluster.master]
            cluster.workers.append(_start(stack, folder / f"worker-{number}.log", "worker.Worker", options)[0])
        _wait_for(
            "Spark's workers", lambda: log.read_text(encoding="utf-8").count("Registering worker") == workers, log
        )
        yield cluster


def _wait_for(what: str, condition: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while not condition():
        if time.monotonic() > deadline:
            said = log.read_text(encoding="utf-8").strip().splitlines()[-1:]
            raise BatchAborted(f"{what} did not start within {_START_S:.0f} s: {' '.join(said)}")
        time.sleep(_LOOK_EVERY_S)


def _start(stack: ExitStack, log: Path, name: str, options: list[str]) -> "tuple[subprocess.Popen[bytes], Path]":
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-class"), f"{_CLASSES}.{name}", *options]
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            # Ctrl+C in the terminal ends the run, which then ends these.
            start_new_session=True,
            env={**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"},
        )
    stack.callback(_end, process)
    return process, log


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _end(process: "subprocess.Popen[bytes]") -> None:
    for child in _children(process.pid):
        with suppress(psutil.NoSuchProcess):  # it ended just now by itself
            child.kill()
    process.kill()
    process.wait(_END_S)
