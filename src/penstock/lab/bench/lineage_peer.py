"""Data.Rentgen 0.7.2, the system that the lineage store grew from: its own consumer, as two workers.

It runs in an environment of its own, and needs Python 3.12 or newer. Its tables and partitions are made before the
clock starts. Events are sent when its workers share the partitions of an empty topic: of a full one the first worker
would take all before the second is there. Its time is that of the events which are not in its store when all are sent.
"""

import datetime
import json
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.broker.ports import find_free
from penstock.clock import clock
from penstock.errors import NotFound
from penstock.kafka import groups, topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.bench.peer_runs import UV, PeerEnvironment
from penstock.lab.bench.throwaway import HOST
from penstock.lab.bench.throwaway_postgres import RunningPostgres

WORKERS = 2
_PARTITIONS = 4
_WANTED = ">=3.12"
_PATIENCE_S = 600
_LOOK_S = 0.02
_DONE = "SELECT count(*) FROM operation WHERE ended_at IS NOT NULL"


def find_python() -> str | None:
    """Return a Python of this machine that is new enough; None if there is none."""
    command = [*UV, "python", "find", "--no-python-downloads", "--no-project", _WANTED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


class DataRentgen:
    """Takes the events of a topic into a database of its own."""

    def __init__(self, cache: Path, base_python: str, on_progress: Callable[[str], None]) -> None:
        self._python = PeerEnvironment(cache, "data_rentgen_requirements.txt", base_python, on_progress).python

    def run(
        self,
        connection: Connection,
        send: Callable[[str], object],
        events: int,
        postgres: RunningPostgres,
        folder: Path,
    ) -> float:
        """Let its workers read a topic of their own, into which `send` puts the events; return the seconds of all."""
        server = postgres.database("peer")
        topic, admin = f"input.{server.database}", Admin(connection)
        topics.create(admin, topic, TopicSpec(partitions=_PARTITIONS))
        login = f"{server.user}:{postgres.password}"
        environment = {
            "PATH": os.environ["PATH"],
            "DATA_RENTGEN__DATABASE__URL": f"postgresql+asyncpg://{login}@{server.host}:{server.port}/{server.database}",
            "DATA_RENTGEN__KAFKA__BOOTSTRAP_SERVERS": json.dumps(connection.bootstrap_servers.split(",")),
            "DATA_RENTGEN__CONSUMER__TOPICS_LIST": json.dumps([topic]),
            "DATA_RENTGEN__CONSUMER__GROUP_ID": server.database,
            "DATA_RENTGEN__CONSUMER__AUTO_OFFSET_RESET": "earliest",
        }
        month = clock().now().date().replace(day=1)
        begin = (month - datetime.timedelta(days=1)).replace(day=1)
        partitions = ["data_rentgen.db.scripts.create_partitions", "--start", begin.isoformat()]
        for module in (["data_rentgen.db.migrations", "upgrade", "head"], partitions):
            subprocess.run(
                [str(self._python), "-m", *module], env=environment, cwd=folder, check=True, capture_output=True
            )
        with ExitStack() as stack:
            workers = [stack.enter_context(self._worker(environment, folder, n)) for n in range(WORKERS)]
            asking = stack.enter_context(postgres.connect(server.database))
            asking.autocommit = True
            try:
                group = _Group(server.database, admin, asking, events // 2)
                self._wait(workers, folder, group.is_shared)
                send(topic)
                first, began = group.executions(), time.perf_counter()
                self._wait(workers, folder, lambda: group.executions() >= group.wanted)
                return (time.perf_counter() - began) * group.wanted / max(group.wanted - first, 1)
            finally:
                for each in workers:
                    each.terminate()

    def _worker(self, environment: dict[str, str], folder: Path, number: int) -> subprocess.Popen[bytes]:
        port = find_free(HOST, 1)[0]
        command = [str(self._python), "-m", "data_rentgen.consumer", "--host", HOST, "--port", str(port)]
        with (folder / f"worker-{number}.log").open("wb") as log:
            return subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)

    def _wait(self, workers: list[subprocess.Popen[bytes]], folder: Path, is_done: Callable[[], bool]) -> None:
        deadline = time.perf_counter() + _PATIENCE_S
        while not is_done():
            if time.perf_counter() > deadline or any(each.poll() is not None for each in workers):
                raise RuntimeError(f"Data.Rentgen does not go on: {(folder / 'worker-0.log').read_text()[-500:]}")
            time.sleep(_LOOK_S)


@dataclass(frozen=True)
class _Group:
    """How far its workers are."""

    name: str
    admin: Admin
    asking: Any
    wanted: int

    def executions(self) -> int:
        return int(self.asking.execute(_DONE).fetchone()[0])

    def is_shared(self) -> bool:
        try:
            members = groups.describe(self.admin, self.name).members
        except NotFound:
            return False
        return len([each for each in members if each.partitions]) == WORKERS
