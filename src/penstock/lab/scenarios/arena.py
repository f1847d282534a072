"""The place of one run: a throwaway Kafka, the workers' files, the game, and what is left in topic and tables.

Everything is in one folder that goes away, on free loopback ports, and is stopped by process id whatever happens.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from penstock.broker.cluster import Cluster
from penstock.config.project import FILE_NAME, LineageReports, LocalCluster, Project
from penstock.config.settings import Settings
from penstock.errors import NotFound, Transient
from penstock.example_files import examples_folder
from penstock.kafka import groups, topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.reader import Reader
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.scenarios.judge import Letter, RecordId
from penstock.lab.scenarios.sinks import Read, SinkKind, add_sink, delta_rows
from penstock.lab.simulator import events
from penstock.operate import status as states
from penstock.operate.driver import MASTER
from penstock.operate.known_pipelines import paths_of
from penstock.operate.status import Status
from penstock.sinks.tables import open_table

Step = Callable[[str, int, int], None]
"""Called with (what happens, done, in all)."""

COMBAT, META, PODIUM = "combat", "game_meta", "game_podium"
_MARKERS = "penstock."
# Neither four state stores nor the fifty tasks by which Delta reads a table's log are worth their start here.
_LITTLE_DATA = {"spark.sql.shuffle.partitions": "2", "spark.databricks.delta.snapshotPartitions": "2"}


class Arena:
    """One run's folder and servers. Its own pipelines read the topic `superhero.combat`."""

    def __init__(self, folder: Path, cluster: Cluster, jar_folder: Path, step: Step, stack: ExitStack) -> None:
        self.folder = folder
        self.cluster = cluster
        self.step = step
        self.stack = stack
        self.workers: int | None = None
        """How many tasks land at once; as many as there are cores if nobody has said."""
        cache = jar_folder.parent
        # Not the user's: whatever penstock.yaml or the environment say, this run is about its own cluster.
        self.settings = Settings(folder, cache, folder / FILE_NAME, Project(), external=None, user=None)
        self.sinks: dict[str, Read] = {"delta": lambda: delta_rows(self.table(COMBAT))}
        self._sink_specs: list[dict[str, Any]] = []

    def report_lineage(self) -> None:
        """Let the workers report what they read and wrote."""
        self.settings = replace(self.settings, project=Project(lineage=LineageReports()))

    @property
    def connection(self) -> Connection:
        """The connection to the cluster."""
        return self.cluster.connection()

    @property
    def master(self) -> str:
        """The Spark of this run's own drivers."""
        return MASTER if self.workers is None else f"local[{self.workers},4]"

    @property
    def truth(self) -> Path:
        """The file that the simulator writes the standings to."""
        return self.folder / "truth.jsonl"

    def table(self, worker: str) -> Path:
        """Return the folder of a worker's table."""
        return self.folder / "tables" / worker

    def rows(self, worker: str) -> list[dict[str, Any]]:
        """Read a worker's table afresh; nothing if it never made one."""
        try:
            found: list[dict[str, Any]] = open_table(self.table(worker)).to_pyarrow_table().to_pylist()
        except NotFound:
            return []
        return found

    def land_in(self, kind: SinkKind) -> None:
        """Let combat events go there too; the Delta table is there in any case, for the other workers read it."""
        if kind == "delta":
            return
        spec, read = add_sink(kind, self.folder, self.connection, self.stack)
        self._sink_specs.append(spec)
        self.sinks[kind] = read

    def worker(self, name: str, /, **changes: Any) -> Path:
        """Return the file of a worker, with these keys changed."""
        file = self.folder / f"{name}.yaml"
        document = yaml.safe_load((_worker_folder() / file.name).read_text(encoding="utf-8"))
        if name == COMBAT:
            document["sinks"] += self._sink_specs
        settings = {**_LITTLE_DATA, **changes.pop("spark", {})}
        file.write_text(yaml.safe_dump({**document, "spark": settings, **changes}), encoding="utf-8")
        return file

    def status(self, worker: str = COMBAT) -> Status | None:
        """Read what a worker's driver says of itself."""
        return states.load(paths_of(self.settings, worker.replace("_", "-")).folder)

    @cached_property
    def admin(self) -> Admin:
        """The admin connection."""
        return Admin(self.connection)

    def lag(self) -> int:
        """Count what the combat worker has not landed yet."""
        try:
            return groups.describe(self.admin, f"penstock.{COMBAT}").lag
        except NotFound:  # it never ran
            parts = topics.describe(self.admin, events.TOPIC).partitions
            return sum((part.end or 0) - (part.start or 0) for part in parts)

    def has_landed_all(self) -> bool:
        """Return whether the combat worker has caught up; no answer from Kafka is a no."""
        try:
            return self.lag() == 0
        except Transient:
            return False

    def sent(self) -> dict[RecordId, bytes]:
        """Read every record of the topic."""
        with Reader(self.connection, events.TOPIC) as reader:
            return {
                (int(each.partition() or 0), int(each.offset() or 0)): bytes(each.value() or b"") for each in reader
            }

    def letters(self) -> list[Letter]:
        """Read the dead letters of the combat worker."""
        try:
            reader = Reader(self.connection, f"{events.TOPIC}.dead")
        except NotFound:
            return []
        found = []
        with reader:
            for each in reader:
                listed: Any = each.headers() or ()
                fields = {name.removeprefix(_MARKERS): value for name, value in listed}
                if fields["pipeline"] == COMBAT.encode():
                    record_id = int(fields["partition"]), int(fields["offset"])
                    found.append(Letter(record_id, bytes(each.value() or b"")))
        return found


@contextmanager
def open_arena(folder: Path, jar_folder: Path, step: Step, *, nodes: int = 1) -> Iterator[Arena]:
    """Start a cluster with the topic in a folder; everything that runs for it is stopped at the end."""
    cluster = Cluster(folder / "broker", jar_folder, on_progress=lambda line: step(line, 0, 0))
    with ExitStack() as stack:
        stack.callback(_stop, cluster)
        cluster.up(LocalCluster(port=0, nodes=nodes))
        # Drivers of other processes look for the nearest project file: it must not be the user's.
        (folder / FILE_NAME).write_text("cluster: {type: local}\n", encoding="utf-8")
        topics.create(Admin(cluster.connection()), events.TOPIC, TopicSpec(partitions=events.PARTITIONS))
        for path in _worker_folder().glob("*.py"):
            shutil.copy(path, folder)
        yield Arena(folder, cluster, jar_folder, step, stack)


def _worker_folder() -> Path:
    """Return the folder that holds `combat.yaml` and the other pipeline files."""
    return examples_folder() / "superhero"


def _stop(cluster: Cluster) -> None:
    if cluster.state() is not None:
        cluster.down()
