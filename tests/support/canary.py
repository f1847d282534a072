"""A project whose commands hold secrets, and a watch that looks for them wherever none belongs."""

import itertools
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from penstock.broker.cluster import Cluster
from penstock.interpreter import SAFE_PYTHON

from conftest import Said

CANARY = "canary-5e1f"
_numbers = itertools.count(1)


def canary() -> str:
    """Return a secret that is like no other and known as one at a glance."""
    return f"{CANARY}-{next(_numbers)}"


class Watch(threading.Thread):
    """Looks at the command lines of all processes, and at the ports and environments of those that we started."""

    def __init__(self, temporary: Path, project: Path) -> None:
        super().__init__(daemon=True)
        self._project = str(project)
        self._temporary = temporary
        self.lines: set[str] = set()
        self.addresses: set[str] = set()
        self.nodes: dict[int, dict[str, str]] = {}
        self.servers: dict[int, dict[str, str]] = {}
        """The environments of processes whose command lines name the home folder, as those of services do."""
        self.passing: dict[str, int] = {}
        """What was in the temporary folder, with its mode."""
        self.command: int | None = None
        """The process whose ports are looked at, with those that it started."""
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.3):
            for process in psutil.process_iter():
                self._look_at(process)
            for entry in os.scandir(self._temporary):
                with suppress(FileNotFoundError):
                    self.passing[entry.name] = entry.stat(follow_symlinks=False).st_mode & 0o777
            with suppress(psutil.Error):
                for process in psutil.Process(self.command).children(recursive=True) if self.command else ():
                    self._look_at_ports(process)

    def _look_at(self, process: psutil.Process) -> None:
        with suppress(psutil.Error):  # it has ended, or belongs to somebody else
            line = process.cmdline()
            self.lines.add("\0".join(line))
            if "kafka.Kafka" in line and process.pid not in self.nodes:
                self.nodes[process.pid] = {**process.environ(), "line": " ".join(line)}
            if self._project in " ".join(line) and process.pid not in self.servers:
                self.servers[process.pid] = {**process.environ(), "line": " ".join(line)}

    def _look_at_ports(self, process: psutil.Process) -> None:
        with suppress(psutil.Error):
            found = process.net_connections("inet")
            self.addresses |= {each.laddr[0] for each in found if each.status == psutil.CONN_LISTEN}

    def stop(self) -> None:
        self._over.set()
        self.join(120)


@dataclass
class Scene:
    """A project with a cluster of its own, whose commands hold secrets that they need and secrets that they do not."""

    folder: Path
    environment: dict[str, str]
    watch: Watch
    said: list[Said] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.folder / "project" / ".penstock"

    def run(self, *arguments: str | Path, fails: bool = False, stdin: str = "", **environment: str) -> Said:
        command = [*SAFE_PYTHON, "-m", "penstock", *map(str, arguments)]
        return self.program(command, fails=fails, stdin=stdin, environment=environment)

    def program(self, command: list[str], *, fails: bool = False, stdin: str = "", environment: dict[str, str]) -> Said:
        with subprocess.Popen(
            command,
            cwd=self.folder / "project",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            umask=0,
            env={**os.environ, **self.environment, **environment},
        ) as process:
            self.watch.command = process.pid
            out, err = process.communicate(stdin, timeout=480)
        said = Said(process.returncode, out, err)
        self.said.append(said)
        assert fails == (said.code != 0), said.err.replace(CANARY, "(secret)")
        return said


@contextmanager
def made_scene(tmp_path: Path, jar_folder: Path) -> Iterator[Scene]:
    """Make the project, with a stranger's modules in its folder; stop what its commands have started."""
    for name in ("project", "tmp", "given"):
        (tmp_path / name).mkdir(mode=0o755)
    environment = {
        "TMPDIR": str(tmp_path / "tmp"),
        "KAFKA_PASSWORD": canary(),
        "IN_ADDRESS": canary(),
        "ACCOUNT_KEY": canary(),
        "AWS_SECRET_ACCESS_KEY": canary(),
        "PENSTOCK_DEBUG": "1",
    }
    for name in ("penstock", "pandas", "pyarrow", "pyspark", "yaml"):
        planted = tmp_path / "project" / name / "__init__.py"
        planted.parent.mkdir()
        planted.write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__)\n")
    watch = Watch(tmp_path / "tmp", tmp_path / "project" / ".penstock")
    watch.start()
    made = Scene(tmp_path, environment, watch)
    try:
        yield made
    finally:
        watch.stop()
        cluster = Cluster(made.home / "broker", jar_folder)
        if cluster.state() is not None:
            cluster.down()


def greeting(server: str) -> str:
    """Return what a port says to somebody who just asks."""
    host, _, port = server.partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as asking:
        asking.sendall(b"GET / HTTP/1.0\r\n\r\n")
        asking.settimeout(2)
        try:
            return asking.recv(65536).decode("latin-1")
        except OSError:
            return ""
