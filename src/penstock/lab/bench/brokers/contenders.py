"""The four brokers, each a throwaway server of its own in one folder, run as a careful user would run it.

All of them are on one file system and on the loopback, and stay up for the whole run, so that they can take turns.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from penstock.broker.cluster import Cluster
from penstock.config.project import LocalCluster
from penstock.errors import BadInput, EnvironmentNotReady
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.bench.brokers.connecting import TAKEOVER_S, connect
from penstock.lab.bench.throwaway_rabbitmq import RunningRabbitMQ
from penstock.lab.bench.throwaway_redis import RunningRedis
from penstock.lab.simulator.events import PARTITIONS
from penstock.transports import Transport

Name = Literal["kafka", "redis-streams", "redis-pubsub", "rabbitmq"]
NAMES: tuple[Name, ...] = get_args(Name)
_KILL_S = 30.0

OnProgress = Callable[[str], None]


@dataclass(frozen=True)
class Contender:
    """A running broker."""

    name: Name
    version: str
    settings: str
    address: str
    data: Path
    make_topic: Callable[[str], None]
    kill: Callable[[], None]
    """Ends the server with `kill -9`."""
    start: Callable[[], None]
    """Starts it again, on its data."""

    def open(self) -> Transport:
        """Connect, in this process."""
        return connect(self.address)


def named(names: Sequence[str]) -> list[Name]:
    """Return the brokers of these names, or all if none is named, in the order of the table."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise BadInput(f"there is no broker '{unknown[0]}' to measure", fix=f"Known are: {', '.join(NAMES)}")
    return [name for name in NAMES if not names or name in names]


@contextmanager
def running(
    names: list[Name], folder: Path, jar_folder: Path, on_progress: OnProgress
) -> Iterator[tuple[list[Contender], dict[Name, str]]]:
    """Start the brokers named; return those that run, and why others do not. All are stopped afterwards."""
    there: list[Contender] = []
    missing: dict[Name, str] = {}
    with ExitStack() as started:
        for name in names:
            on_progress(f"starting {name}")
            own = folder / name
            own.mkdir()
            try:
                there.append(started.enter_context(_opened(name, own, jar_folder)))
            except EnvironmentNotReady as error:
                missing[name] = str(error)
        if not there:
            raise EnvironmentNotReady("none of these brokers can be started here: " + "; ".join(missing.values()))
        yield there, missing


@contextmanager
def _opened(name: Name, folder: Path, jar_folder: Path) -> Iterator[Contender]:
    if name == "kafka":
        with _kafka(folder, jar_folder) as contender:
            yield contender
        return
    server = RunningRabbitMQ(folder) if name == "rabbitmq" else RunningRedis(folder, persistence="everysec")
    try:
        server.start()
        yield _rabbitmq(server) if isinstance(server, RunningRabbitMQ) else _redis(server, name)
    finally:
        server.stop()


@contextmanager
def _kafka(folder: Path, jar_folder: Path) -> Iterator[Contender]:
    cluster = Cluster(folder / "broker", jar_folder)
    requested = LocalCluster(port=0)

    def kill() -> None:
        process = cluster.node(1).process()
        if process is not None:
            process.kill()
            process.wait(_KILL_S)

    def start() -> None:
        cluster.up(requested)

    try:
        state = cluster.up(requested)
        connection = cluster.connection()
        yield Contender(
            name="kafka",
            version=state.kafka_version,
            settings=(
                f"one node, {PARTITIONS} partitions; acks all, idempotent, lz4; the system flushes to disk;"
                f" silent readers missed after {TAKEOVER_S} s"
            ),
            address=f"kafka://{connection.bootstrap_servers}",
            data=cluster.node(1).data,
            make_topic=lambda topic: topics.create(Admin(connection), topic, TopicSpec(partitions=PARTITIONS)),
            kill=kill,
            start=start,
        )
    finally:
        # Nothing was made where Java or the jars are missing.
        if cluster.state() is not None:
            cluster.down()


def _redis(server: RunningRedis, name: Name) -> Contender:
    keeps = "append-only file, flushed every second"
    only = {
        "redis-streams": f"{keeps}; not trimmed; silent readers missed after {TAKEOVER_S} s",
        "redis-pubsub": f"{keeps}, of which Pub/Sub makes no use; a listener may be 32 MB behind",
    }
    with server.connect() as client:
        version = str(client.info("server")["redis_version"])
    return Contender(
        name=name,
        version=version,
        settings=only[name],
        address=server.address("redis" if name == "redis-streams" else "redis-pubsub"),
        data=server.data,
        make_topic=_nothing_to_make,
        kill=server.kill,
        start=server.start,
    )


def _rabbitmq(server: RunningRabbitMQ) -> Contender:
    found = re.search(r"Starting RabbitMQ (\S+)", server.log.read_text(encoding="utf-8", errors="replace"))
    return Contender(
        name="rabbitmq",
        version=found[1] if found else "unknown",
        settings="durable classic queue, persistent messages, confirmed when on disk; 2,000 handed out at most",
        address=server.address,
        data=server.data,
        make_topic=_nothing_to_make,
        kill=server.kill,
        start=server.start,
    )


def _nothing_to_make(_topic: str) -> None:
    """Leave it to the first subscriber or message, which make a stream, a channel or a queue."""
