"""A real Redis for benches and tests: in a folder of its own, on a free port of the loopback, ended by its id."""

import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import redis

from penstock.broker.ports import find_free
from penstock.errors import Unprepared

_HOST = "127.0.0.1"
_START_S = 30
_STOP_S = 30
_LOOK_EVERY_S = 0.02

Persistence = Literal["always", "everysec", "none"]


class RunningRedis:
    """A throwaway server that asks for a password. Whoever stops or kills it starts it again, on its port and data.

    `persistence` is when it flushes its append-only file: before each answer, every second, or that it has none.
    """

    def __init__(self, folder: Path, *, persistence: Persistence = "everysec") -> None:
        self._folder = folder
        self._binary = find_server()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = find_free(_HOST, 1)[0]
        self.password = secrets.token_urlsafe(16)
        self.password_file.touch(mode=0o600)
        self.password_file.write_text(self.password)
        self._write_settings(persistence)

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
        """Where it keeps its append-only file."""
        return self._folder / "data"

    def address(self, scheme: str = "redis") -> str:
        """Give the address for `open_transport`; `redis` means Streams, `redis-pubsub` means Pub/Sub."""
        return f"{scheme}://{_HOST}:{self.port}/0?password=file:{self.password_file}"

    def _write_settings(self, persistence: Persistence) -> None:
        self.data.mkdir()
        settings = {
            "bind": _HOST,
            "port": self.port,
            "dir": self.data,
            "requirepass": self.password,
            "save": '""',
            "appendonly": "no" if persistence == "none" else "yes",
            "appendfsync": "everysec" if persistence == "none" else persistence,
        }
        # A file, because arguments are in everybody's sight.
        file = self._folder / "redis.conf"
        file.touch(mode=0o600)
        file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))

    def start(self) -> None:
        """Start the server and wait until it answers; after a kill it reads its append-only file first."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [self._binary, self._folder / "redis.conf"], stdout=log, stderr=log, start_new_session=True
            )
        self._process = process
        deadline = time.monotonic() + _START_S
        while not self._answers():
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise Unprepared(f"Redis does not start: {self.log.read_text()[-500:]}")
            time.sleep(_LOOK_EVERY_S)

    def _answers(self) -> bool:
        try:
            with self.connect() as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    def stop(self) -> None:
        """Stop the server as an administrator would."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._process = None

    def kill(self) -> None:
        """End the server with `kill -9`."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait(_STOP_S)
        self._process = None

    @property
    def process_id(self) -> int | None:
        """The server's process, while it runs."""
        return self._process.pid if self._process else None

    def connect(self) -> redis.Redis:
        """Open a connection of one's own, past everything that Penstock does."""
        return redis.Redis(host=_HOST, port=self.port, password=self.password)


@contextmanager
def running(*, persistence: Persistence = "everysec") -> Iterator[RunningRedis]:
    """Give a new server; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="penstock-redis-") as place:
        server = RunningRedis(Path(place), persistence=persistence)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def find_server() -> str:
    """Give the path of the server; raise `Unprepared` where there is none."""
    found = shutil.which("redis-server")
    if found is None:
        raise Unprepared(
            "there is no Redis server here", fix="Install one, on Debian with: apt-get install redis-server"
        )
    return found
