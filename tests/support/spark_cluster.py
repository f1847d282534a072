"""A standalone Spark cluster from the installed PySpark: a master and workers, each a process of its own."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyspark

from support.waiting import until

_CLASSES = "org.apache.spark.deploy"


@dataclass
class SparkCluster:
    """A running master with its workers."""

    folder: Path
    master: str = ""
    workers: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def kill_a_worker(self) -> None:
        """Kill a worker and its executors, as a machine that goes down does."""
        worker = next(each for each in self.workers if each.poll() is None and _children(each.pid))
        for process in [psutil.Process(worker.pid), *_children(worker.pid)]:
            process.kill()
        worker.wait(30)

    @property
    def is_working(self) -> bool:
        """Tell whether every worker has an executor whose Python runs."""
        return all(any("python" in child.name() for child in _children(each.pid)) for each in self.workers)


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


@contextmanager
def running(folder: Path, workers: int = 2) -> Iterator[SparkCluster]:
    """Start a cluster on free ports of the loopback, and end all that it started."""
    folder.mkdir()
    cluster = SparkCluster(folder)
    with ExitStack() as stack:
        options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        log = _start(stack, folder / "master.log", "master.Master", options)[1]
        until(lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()) is not None, 60)
        found = re.search(r"Starting Spark master at (spark://\S+)", log.read_text())
        assert found is not None
        cluster.master = found[1]
        for number in range(workers):
            work = folder / f"worker-{number}"
            options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--work-dir", str(work)]
            started = _start(stack, folder / f"worker-{number}.log", "worker.Worker", [*options, cluster.master])
            cluster.workers.append(started[0])
        until(lambda: log.read_text().count("Registering worker") == workers, 60)
        yield cluster


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
            env={**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"},
        )
    stack.callback(_end, process)
    return process, log


def _end(process: "subprocess.Popen[bytes]") -> None:
    for child in _children(process.pid):
        child.kill()
    process.kill()
    process.wait(30)
