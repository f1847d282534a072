"""A real PostgreSQL for benches and tests: in a folder of its own, on a free port of the loopback, ended by its id."""

import itertools
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql

from penstock.broker.ports import find_free
from penstock.errors import Unprepared
from penstock.secret import Secret
from penstock.sinks.postgres import Server

_HOST = "127.0.0.1"
_USER = "penstock"
_START_S = 60
_LOOK_EVERY_S = 0.05
_STOP_S = 60
_numbers = itertools.count(1)


class RunningPostgres:
    """A throwaway server. Logins need a password. Whoever stops it starts it again.

    It runs without fsync unless it is `durable`. A kill keeps the page cache, so that commits outlive it either way.
    """

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self._folder = folder
        self._binaries = _find_binaries()
        self._owner = _unprivileged()
        self._fsync = "on" if durable else "off"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = find_free(_HOST, 1)[0]
        self.password = secrets.token_urlsafe(16)
        self._make_cluster()

    @property
    def password_file(self) -> Path:
        """The file that the password stands in, for a `file:` reference."""
        return self._folder / "password"

    @property
    def log(self) -> Path:
        """What the server has to say."""
        return self._folder / "log"

    def _make_cluster(self) -> None:
        self.password_file.write_text(self.password)
        self.password_file.chmod(0o600)
        if self._owner:
            for path in (self._folder, self.password_file):
                os.chown(path, self._owner["user"], self._owner["group"])
        command = [str(self._binaries / "initdb"), "--no-sync", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        command += [f"--username={_USER}", f"--pwfile={self.password_file}", f"--pgdata={self._folder / 'data'}"]
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=False, **self._owner)
        if done.returncode != 0:
            raise Unprepared(f"PostgreSQL's initdb failed: {done.stderr.strip()}")

    def start(self) -> None:
        """Start the server and wait until it lets us in; after a kill it recovers first."""
        settings = {
            "listen_addresses": _HOST,
            "port": self.port,
            "unix_socket_directories": "",
            "dynamic_shared_memory_type": "mmap",  # in the cluster's folder: a kill leaves nothing elsewhere
            "fsync": self._fsync,
        }
        command: list[str | Path] = [self._binaries / "postgres", "-D", self._folder / "data"]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self._folder, stdout=log, stderr=log, start_new_session=True, **self._owner
            )
        self._process = process
        deadline = time.monotonic() + _START_S
        while not self._answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unprepared(f"PostgreSQL does not start: {self.log.read_text()[-500:]}")
            time.sleep(_LOOK_EVERY_S)

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """Stop the server as an administrator would; sessions are cut, transactions rolled back."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self._process = None

    def kill(self) -> None:
        """End the postmaster and every process of it with `kill -9`."""
        if self._process is None:
            return
        postmaster = psutil.Process(self._process.pid)
        processes = [postmaster, *postmaster.children(recursive=True)]
        for each in processes:
            # A worker may have ended just now by itself.
            if each.is_running():
                each.kill()
        self._process.wait(_STOP_S)
        psutil.wait_procs(processes, _STOP_S)
        self._process = None

    @contextmanager
    def down(self) -> Iterator[None]:
        """Be stopped for a while."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def database(self, name: str = "test", options: str = "") -> Server:
        """Make a database that nobody else uses."""
        unique = f"{name}_{next(_numbers)}"
        with self.connect() as connection:
            connection.autocommit = True
            connection.execute(sql.SQL("CREATE DATABASE {} {}").format(sql.Identifier(unique), sql.SQL(options)))
        return Server(
            host=_HOST,
            port=self.port,
            database=unique,
            user=_USER,
            password=Secret.parse(f"file:{self.password_file}"),
            sslmode="disable",
        )

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """Open a superuser's connection, past everything that Penstock does."""
        return psycopg.connect(host=_HOST, port=self.port, dbname=database, user=_USER, password=self.password)


@contextmanager
def running(*, durable: bool = False) -> Iterator[RunningPostgres]:
    """Give a new server; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="penstock-postgres-") as place:
        server = RunningPostgres(Path(place), durable=durable)
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _find_binaries() -> Path:
    """Look in the PATH, then where Debian puts every version apart; the newest wins."""
    found = [Path(path).resolve() for path in [shutil.which("postgres")] if path]
    debian = Path("/usr/lib/postgresql").glob("[0-9]*/bin/postgres")
    found += sorted(debian, key=lambda each: int(each.parts[-3].partition(".")[0]), reverse=True)
    for each in found:
        if (each.parent / "initdb").exists():
            return each.parent
    raise Unprepared(
        "there is no PostgreSQL server here", fix="Install one, on Debian with: apt-get install postgresql"
    )


def _unprivileged() -> dict[str, Any]:
    """As whom the server runs, for it refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    names = {each.pw_name: each for each in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
