"""A real PostgreSQL for benches and tests."""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from penstock.broker.ports import find_free
from penstock.errors import EnvironmentNotReady
from penstock.lab.bench.throwaway import HOST, ThrowawayServer
from penstock.private import write_private
from penstock.secret import Secret
from penstock.sinks.postgres_server import Server

_USER = "penstock"
_numbers = itertools.count(1)


class RunningPostgres(ThrowawayServer):
    """A throwaway PostgreSQL.

    It runs without fsync unless it is `durable`, and logs what change data capture reads if it is `logical`.
    A kill keeps the page cache, so that commits outlive it either way.
    """

    name = "PostgreSQL"
    stop_signal = signal.SIGINT  # sessions are cut, transactions rolled back

    def __init__(self, folder: Path, *, durable: bool = False, tls: bool = False, logical: bool = False) -> None:
        super().__init__(folder, tls=tls)
        self._binaries = _find_binaries()
        self._owner = _unprivileged()
        self._fsync = "on" if durable else "off"
        self._wal_level = "logical" if logical else "replica"
        self.port = find_free(HOST, 1)[0]
        self._make_cluster()

    def _make_cluster(self) -> None:
        if self._owner:
            for path in (self._folder, self.password_file):
                os.chown(path, self._owner["user"], self._owner["group"])
        command = [str(self._binaries / "initdb"), "--no-sync", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        command += [f"--username={_USER}", f"--pwfile={self.password_file}", f"--pgdata={self._folder / 'data'}"]
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=False, **self._owner)
        if done.returncode != 0:
            raise EnvironmentNotReady(f"PostgreSQL's initdb failed: {done.stderr.strip()}")

    def start(self) -> None:
        """Start it and wait until it lets us in; after a kill it replays its log first."""
        settings: dict[str, Any] = {
            "listen_addresses": HOST,
            "port": self.port,
            "unix_socket_directories": "",
            "dynamic_shared_memory_type": "mmap",  # in the cluster's folder: a kill leaves nothing elsewhere
            "fsync": self._fsync,
            "wal_level": self._wal_level,
        }
        if self._certificates is not None:
            chain = self._folder / "data" / "server.pem"
            write_private(chain, self._certificates.node_pem(1).read_bytes())
            if self._owner:
                os.chown(chain, self._owner["user"], self._owner["group"])
            settings |= {"ssl": "on", "ssl_cert_file": chain, "ssl_key_file": chain}
        command: list[str | Path] = [self._binaries / "postgres", "-D", self._folder / "data"]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        self._launch(command, self._answers, **self._owner)

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def database(self, name: str = "test", options: str = "") -> Server:
        """Make a database that nobody else uses."""
        unique = f"{name}_{next(_numbers)}"
        with self.connect() as connection:
            connection.autocommit = True
            connection.execute(sql.SQL("CREATE DATABASE {} {}").format(sql.Identifier(unique), sql.SQL(options)))
        return Server(
            host=HOST,
            port=self.port,
            database=unique,
            user=_USER,
            password=Secret.parse(f"file:{self.password_file}"),
            sslmode="disable" if self.ca is None else None,
            ca_file=self.ca,
        )

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        """Open a superuser's connection, past everything that Penstock does."""
        return psycopg.connect(host=HOST, port=self.port, dbname=database, user=_USER, password=self.password)


def _find_binaries() -> Path:
    """Look in the PATH, then where Debian puts every version apart; the newest wins."""
    found = [Path(path).resolve() for path in [shutil.which("postgres")] if path]
    debian = Path("/usr/lib/postgresql").glob("[0-9]*/bin/postgres")
    found += sorted(debian, key=lambda each: int(each.parts[-3].partition(".")[0]), reverse=True)
    for each in found:
        if (each.parent / "initdb").exists():
            return each.parent
    raise EnvironmentNotReady(
        "there is no PostgreSQL server here", fix="Install one, on Debian with: apt-get install postgresql"
    )


def _unprivileged() -> dict[str, Any]:
    """As whom the server runs, for it refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    names = {each.pw_name: each for each in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
