"""A real RabbitMQ for benches and tests: in a folder of its own, on free ports of the loopback, ended by its ids.

Erlang has a port mapper, epmd, which a node starts when it finds none and which then stays for good. Here it is a
process of ours, on a port of its own, so that it goes when the node goes.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import psutil
from pika.exceptions import AMQPError

from penstock.broker.ports import find_free
from penstock.errors import Unprepared

_HOST = "127.0.0.1"
_USER = "penstock"
_START_S = 90
_STOP_S = 60
_LOOK_EVERY_S = 0.1
# Debian's command in the PATH insists on being root or a user of its own; the script behind it does not.
_DEBIAN = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class RunningRabbitMQ:
    """A throwaway server. Whoever stops or kills it starts it again, on the same port and data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._binary, self._epmd_binary = find_server()
        self._process: subprocess.Popen[bytes] | None = None
        self._epmd: subprocess.Popen[bytes] | None = None
        self.port, self._epmd_port, self._distribution_port = find_free(_HOST, 3)
        self.password = secrets.token_urlsafe(16)
        self._write_private(self.password_file, self.password)
        self._write_settings()

    @property
    def password_file(self) -> Path:
        """The file that the password stands in, for a `file:` reference."""
        return self._folder / "password"

    @property
    def log(self) -> Path:
        """What the server has to say."""
        return self._folder / "log"

    @property
    def data(self) -> Path:
        """Where it keeps its queues."""
        return self._folder / "mnesia"

    @property
    def address(self) -> str:
        """The address for `open_transport`."""
        return f"amqp://{_USER}@{_HOST}:{self.port}/?password=file:{self.password_file}"

    @property
    def process_ids(self) -> list[int]:
        """The node's processes and the port mapper, while they run."""
        started = [process for process in (self._process, self._epmd) if process is not None]
        return [each.pid for process in started for each in _family(process.pid)]

    def _write_private(self, file: Path, content: str, mode: int = 0o600) -> None:
        file.touch(mode=0o600)
        file.write_text(content)
        file.chmod(mode)

    def _write_settings(self) -> None:
        settings = {
            f"listeners.tcp.1 = {_HOST}:{self.port}",
            f"default_user = {_USER}",
            f"default_pass = {self.password}",
            "log.console = true",
            "log.file = false",
            # A throwaway server on a full disk or a small machine should fail loudly elsewhere, not block publishers.
            "disk_free_limit.absolute = 50MB",
        }
        self._write_private(self._folder / "rabbitmq.conf", "\n".join(sorted(settings)) + "\n")
        self._write_private(self._folder / "enabled_plugins", "[].\n")
        self._write_private(self._folder / ".erlang.cookie", secrets.token_hex(16), mode=0o400)

    def _environment(self) -> dict[str, str]:
        """Leave nothing to the machine's own RabbitMQ, whose settings and node must not be touched."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(self._folder),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": _HOST,
            "RABBITMQ_NODENAME": f"penstock{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_CONF_ENV_FILE": str(self._folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(self._folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self._folder / "none.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.data),
            "RABBITMQ_LOG_BASE": str(self._folder),
            "RABBITMQ_PID_FILE": str(self._folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }

    def start(self) -> None:
        """Start the server and wait until it lets us in; after a kill it recovers its queues first."""
        self._start_epmd()
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [self._binary],
                cwd=self._folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._process = process
        deadline = time.monotonic() + _START_S
        while not self._answers():
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise Unprepared(f"RabbitMQ does not start: {self.log.read_text()[-500:]}")
            time.sleep(_LOOK_EVERY_S)

    def _start_epmd(self) -> None:
        command = [self._epmd_binary, "-port", str(self._epmd_port), "-address", _HOST]
        with self.log.open("ab") as log:
            epmd = subprocess.Popen(command, env=self._environment(), stdout=log, stderr=log, start_new_session=True)
        self._epmd = epmd
        deadline = time.monotonic() + _START_S
        # A node that finds no mapper would start one that nobody ends.
        while not _listens(self._epmd_port):
            if epmd.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise Unprepared(f"RabbitMQ's port mapper does not start: {self.log.read_text()[-500:]}")
            time.sleep(_LOOK_EVERY_S)

    def _answers(self) -> bool:
        if not _listens(self.port):
            return False
        try:
            self.connect().close()
        except AMQPError:
            return False
        return True

    def stop(self) -> None:
        """Stop the server as an administrator would, then its port mapper."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            self._process = None
        self.kill()

    def kill(self) -> None:
        """End every process of the server, and its port mapper, with `kill -9`."""
        for process in (self._process, self._epmd):
            if process is None:
                continue
            family = _family(process.pid)
            for each in family:
                # One of them may have ended just now by itself.
                if each.is_running():
                    each.kill()
            process.wait(_STOP_S)
            _wait_for_end(family)
        self._process = self._epmd = None

    def connect(self) -> pika.BlockingConnection:
        """Open a connection of one's own, past everything that Penstock does."""
        login = pika.PlainCredentials(_USER, self.password)
        return pika.BlockingConnection(pika.ConnectionParameters(_HOST, self.port, credentials=login))


@contextmanager
def running() -> Iterator[RunningRabbitMQ]:
    """Give a new server; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="penstock-rabbitmq-") as place:
        server = RunningRabbitMQ(Path(place))
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _family(process_id: int) -> list[psutil.Process]:
    try:
        head = psutil.Process(process_id)
        return [head, *head.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _wait_for_end(processes: list[psutil.Process]) -> None:
    """Wait until they have let go of their ports and files; whether somebody has buried them does not matter."""
    deadline = time.monotonic() + _STOP_S
    while any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes):
        if time.monotonic() > deadline:
            raise Unprepared(f"processes of RabbitMQ do not end: {', '.join(str(each.pid) for each in processes)}")
        time.sleep(_LOOK_EVERY_S)


def _listens(port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex((_HOST, port)) == 0


def find_server() -> tuple[str, str]:
    """Give the paths of the server and its port mapper; raise `Unprepared` where there are none."""
    server = str(_DEBIAN) if _DEBIAN.exists() else shutil.which("rabbitmq-server")
    epmd = shutil.which("epmd")
    if server is None or epmd is None:
        raise Unprepared(
            "there is no RabbitMQ server here", fix="Install one, on Debian with: apt-get install rabbitmq-server"
        )
    return server, epmd
