"""A real Redis for benches and tests."""

import shutil
from pathlib import Path
from typing import Literal

import redis

from penstock.broker.ports import find_free
from penstock.errors import EnvironmentNotReady
from penstock.lab.bench.throwaway import HOST, ThrowawayServer
from penstock.private import write_private

Persistence = Literal["always", "everysec", "none"]


class RunningRedis(ThrowawayServer):
    """A throwaway Redis.

    `persistence` is when it flushes its append-only file: before each answer, every second, or that it has none.
    """

    name = "Redis"

    def __init__(self, folder: Path, *, persistence: Persistence = "everysec", tls: bool = False) -> None:
        super().__init__(folder, tls=tls)
        self._binary = find_server()
        self.port = find_free(HOST, 1)[0]
        self._settings = self._write_settings(persistence)

    @property
    def data(self) -> Path:
        """Where it keeps its append-only file."""
        return self._folder / "data"

    def address(self, scheme: str = "redis") -> str:
        """Return the address for `open_transport`; `redis` means Streams, `redis-pubsub` means Pub/Sub."""
        return f"{scheme}://{HOST}:{self.port}/0?{self._login}"

    def _write_settings(self, persistence: Persistence) -> Path:
        self.data.mkdir()
        settings = {
            "bind": HOST,
            "port": 0 if self._certificates is not None else self.port,
            "dir": self.data,
            "requirepass": self.password,
            "save": '""',
            "appendonly": "no" if persistence == "none" else "yes",
            "appendfsync": "everysec" if persistence == "none" else persistence,
        }
        if self._certificates is not None:
            chain = self._certificates.node_pem(1)
            settings |= {"tls-port": self.port, "tls-cert-file": chain, "tls-key-file": chain}
            settings |= {"tls-ca-cert-file": self._certificates.ca_pem, "tls-auth-clients": "no"}
        file = self._folder / "redis.conf"
        write_private(file, "".join(f"{name} {value}\n" for name, value in settings.items()).encode())
        return file

    def start(self) -> None:
        """Start it and wait until it answers; after a kill it reads its append-only file first."""
        self._launch([self._binary, self._settings], self._answers)

    def _answers(self) -> bool:
        try:
            with self.connect() as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    def connect(self) -> redis.Redis:
        """Open a connection of one's own, past everything that Penstock does."""
        encrypted = self.ca is not None
        return redis.Redis(
            host=HOST, port=self.port, password=self.password, ssl=encrypted, ssl_ca_certs=str(self.ca or "") or None
        )


def find_server() -> str:
    """Return the path of the server; raise `EnvironmentNotReady` where there is none."""
    found = shutil.which("redis-server")
    if found is None:
        raise EnvironmentNotReady(
            "there is no Redis server here", fix="Install one, on Debian with: apt-get install redis-server"
        )
    return found
