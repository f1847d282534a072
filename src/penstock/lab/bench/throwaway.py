"""Real servers for benches and tests: in a folder of their own, on free ports of the loopback, ended by their ids."""

import secrets
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import psutil

from penstock.broker.certificates import Certificates
from penstock.config.secrets_folder import SecretsFolder
from penstock.errors import EnvironmentNotReady
from penstock.private import write_private

HOST = "127.0.0.1"
_START_S = 90
_STOP_S = 60
_LOOK_EVERY_S = 0.05


class ThrowawayServer(ABC):
    """A server that asks for a password. Once stopped or killed it can be started again, on the same port and data."""

    name: ClassVar[str]
    """What the server is called when it does not start."""

    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    """How an administrator would ask it to end."""

    def __init__(self, folder: Path, *, tls: bool = False) -> None:
        self._folder = folder
        self._certificates = SecretsFolder.of(folder) if tls else None
        if self._certificates is not None:
            made = Certificates(self._certificates)
            made.ensure_ca()
            made.ensure_node(1, HOST)
        self._processes: list[subprocess.Popen[bytes]] = []
        self.password = secrets.token_urlsafe(16)
        # In a file, because arguments are in everybody's sight.
        write_private(self.password_file, self.password.encode())

    @property
    def password_file(self) -> Path:
        """The file that the password is in, for a `file:` reference."""
        return self._folder / "password"

    @property
    def ca(self) -> Path | None:
        """The CA that its certificate is from, if it speaks TLS."""
        return self._certificates.ca_pem if self._certificates is not None else None

    @property
    def _login(self) -> str:
        """What follows the question mark of its address."""
        return f"password=file:{self.password_file}" + (f"&tls={self.ca}" if self.ca is not None else "")

    @property
    def log(self) -> Path:
        """What the server has to say."""
        return self._folder / "log"

    @property
    def process_ids(self) -> list[int]:
        """All its processes, while they run."""
        return [each.pid for process in self._processes for each in _family(process)]

    @abstractmethod
    def start(self) -> None:
        """Start the server and wait until it lets us in; after a kill it recovers first."""

    def _launch(self, command: Sequence[str | Path], answers: Callable[[], bool], **options: Any) -> None:
        """Start one process and wait until it answers; those launched before it serve it, and end after it."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **options,
            )
        self._processes.append(process)
        deadline = time.monotonic() + _START_S
        while not answers():
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise EnvironmentNotReady(f"{self.name} does not start: {self.log.read_text()[-500:]}")
            time.sleep(_LOOK_EVERY_S)

    def stop(self) -> None:
        """Stop the server as an administrator would, then whatever served it."""
        if not self._processes:
            return
        *servants, server = self._processes
        server.send_signal(self.stop_signal)
        try:
            server.wait(_STOP_S)
            self._processes = servants
        finally:
            self.kill()

    def kill(self) -> None:
        """End every process of it with `kill -9`."""
        for process in self._processes:
            family = _family(process)
            for each in family:
                # One of them may have ended just now by itself.
                if each.is_running():
                    each.kill()
            process.wait(_STOP_S)
            _wait_for_end(family)
        self._processes = []

    @contextmanager
    def down(self) -> Iterator[None]:
        """Be stopped for a while."""
        self.stop()
        try:
            yield
        finally:
            self.start()


AnyServer = TypeVar("AnyServer", bound=ThrowawayServer)


@contextmanager
def running(make: Callable[[Path], AnyServer]) -> Iterator[AnyServer]:
    """Return a new server; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="penstock-server-") as folder:
        server = make(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _family(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    if process.poll() is not None:
        return []  # its number may be another's by now
    try:
        head = psutil.Process(process.pid)
        return [head, *head.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _wait_for_end(processes: list[psutil.Process]) -> None:
    """Wait until they have let go of their ports and files; whether somebody has buried them does not matter."""
    deadline = time.monotonic() + _STOP_S
    while any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes):
        if time.monotonic() > deadline:
            raise EnvironmentNotReady(f"processes do not end: {', '.join(str(each.pid) for each in processes)}")
        time.sleep(_LOOK_EVERY_S)
