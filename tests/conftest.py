"""One server of each kind for a whole run: started when the first test asks, stopped by process id at the end."""

import gc
import itertools
import json
import multiprocessing.util
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis  # noqa: F401 - before all else: it asks which objects refer to its dice, of all that are loaded by then
import pytest

from penstock.broker.cluster import Cluster
from penstock.broker.properties import server_properties
from penstock.config import settings
from penstock.config.local_services import ServiceAddress
from penstock.config.project import LocalCluster
from penstock.config.services import ConnectService, RegistryService, Services
from penstock.connect.cdc import DEBEZIUM_POSTGRES
from penstock.errors import EnvironmentNotReady, Refused, Transient
from penstock.jvm.jars import KAFKA, JarSet, ensure
from penstock.jvm.java_properties import properties_text
from penstock.kafka import groups, topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.bench import throwaway_rabbitmq, throwaway_redis
from penstock.lab.bench.throwaway import running
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.lab.bench.throwaway_rabbitmq import RunningRabbitMQ
from penstock.lab.bench.throwaway_redis import RunningRedis
from penstock.services import control
from penstock.services.context import ServiceContext

from support.forked_commands import Forker
from support.leftovers import Watcher
from support.memory_files import use_memory_for_files
from support.own_ports import keep_to_own_ports
from support.schedule import Planned, ordered
from support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.pipelines import Lab

_VERSIONS: dict[str, JarSet] = {"4.3": KAFKA, "3.9": "kafka-3.9.1"}
_UNIT = Path(__file__).parent / "unit"
_numbers = itertools.count(1)

# Brokers under test live for seconds: half of their start is the compiling of code that never gets hot.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
keep_to_own_ports()
# What is made while tests are collected stays until the end: looking through all of it for garbage, again and again,
# took a quarter of the CPU of the tests of console and lineage.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    # What a shell runs in the background ignores Ctrl-C, and so would every process that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if all(path.is_relative_to(_UNIT) for path in _paths(config)):
        use_memory_for_files()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kafka", choices=list(_VERSIONS), default="4.3", help="Version of the broker under test.")
    parser.addoption("--soak-minutes", type=float, default=10, help="How long random faults go on.")
    parser.addoption("--soak-seed", type=int, default=1, help="Which schedule of faults.")
    parser.addoption("--histories", type=int, default=3, help="How many random histories.")
    parser.addoption("--histories-folder", default=".histories", help="Where each history is written down.")


def _paths(config: pytest.Config) -> list[Path]:
    """Return the files and folders whose tests are to run."""
    return [config.invocation_params.dir / each.partition("::")[0] for each in config.args]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Workers of pytest-xdist have to agree on the order; it follows from the shuffled one, which is the same in each.
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        tests = [
            Planned(place, item.nodeid.partition("::")[0], frozenset(getattr(item, "fixturenames", ())))
            for place, item in enumerate(items)
        ]
        items[:] = [items[place] for place in ordered(tests, workers)]


@pytest.fixture(scope="session", autouse=True)
def no_settings_of_the_developer() -> Iterator[None]:
    """Tests see no PENSTOCK_ variable but the ones they set themselves; the jar cache stays."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("PENSTOCK_") and name != "PENSTOCK_CACHE"]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="session", autouse=True)
def nothing_outlives_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have everything that tests start in two folders, and ended if this process is killed."""
    # Spark's JVM lives longer than this, and may be about to write there.
    made = tempfile.TemporaryDirectory(prefix="penstock-tests-", ignore_cleanup_errors=True)
    with made as place, pytest.MonkeyPatch.context() as patch:
        Path(place).chmod(0o711)  # PostgreSQL passes through it as another user
        watcher = Watcher(tmp_path_factory.getbasetemp(), Path(place))
        # Python removes this folder at its very end, when the run's own two may be gone already: it is in neither.
        multiprocessing.util.get_temp_dir()
        patch.setattr(tempfile, "tempdir", place)
        yield
        watcher.dismiss()


@pytest.fixture(scope="session")
def jar_folder() -> Path:
    return settings.load().jars


@dataclass(frozen=True)
class RunningKafka:
    """A cluster under test."""

    cluster: Cluster
    home: Path

    @property
    def connection(self) -> Connection:
        return self.cluster.connection()

    def admin(self) -> Admin:
        return Admin(self.connection)

    def topic(self, name: str = "topic", **spec: Any) -> str:
        """Make a topic that no other test uses."""
        unique = f"{name}-{next(_numbers)}"
        topics.create(self.admin(), unique, TopicSpec(**spec))
        return unique

    def restart(self) -> None:
        """Restart every node, and wait until all of it answers again."""
        self.cluster.restart()
        self._wait_for_coordinators()

    def start_again(self) -> None:
        """Start what was stopped or killed, and wait until all of it answers again."""
        self.cluster.up(LocalCluster())
        self._wait_for_coordinators()

    def _wait_for_coordinators(self) -> None:
        """Wait until every group is known again; a node that has just started takes records before it is."""
        admin = self.admin()

        def is_known() -> bool:
            try:
                groups.list_groups(admin)
            except (Transient, Refused):
                return False
            return True

        until(is_known)


def _run(requested: LocalCluster, jar_folder: Path, kafka: JarSet) -> Iterator[RunningKafka]:
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as place:
        home = Path(place)
        cluster = Cluster(home / "broker", jar_folder, kafka=kafka)
        try:
            cluster.up(requested)
            yield RunningKafka(cluster, home)
        finally:
            cluster.down()


@pytest.fixture(scope="session")
def kafka(jar_folder: Path, request: pytest.FixtureRequest) -> Iterator[RunningKafka]:
    """One node, plaintext."""
    yield from _run(LocalCluster(port=0), jar_folder, _VERSIONS[request.config.getoption("--kafka")])


@pytest.fixture(scope="session")
def three_nodes(jar_folder: Path) -> Iterator[RunningKafka]:
    """Three nodes, replication 3. A test that breaks something fixes it with `cluster.up`."""
    yield from _run(LocalCluster(nodes=3, port=0), jar_folder, KAFKA)


@pytest.fixture(scope="session")
def secure_kafka(jar_folder: Path) -> Iterator[RunningKafka]:
    """One node with TLS, SCRAM users and ACLs."""
    yield from _run(LocalCluster(port=0, secure=True), jar_folder, KAFKA)


@pytest.fixture(scope="session")
def careless_kafka(jar_folder: Path) -> Iterator[RunningKafka]:
    """One node that makes every topic that is asked for, as Kafka's defaults have it, and soon forgets what rests."""
    careless = {
        "auto.create.topics.enable": "true",
        "transactional.id.expiration.ms": 4000,
        "transaction.remove.expired.transaction.cleanup.interval.ms": 200,
        "offsets.retention.minutes": 1,
        "offsets.retention.check.interval.ms": 500,
    }
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "penstock.broker.cluster.server_properties",
                lambda *known: server_properties(*known) + properties_text(careless),
            )
            kafka = stack.enter_context(contextmanager(_run)(LocalCluster(port=0), jar_folder, KAFKA))
        yield kafka


@pytest.fixture(scope="session")
def postgres() -> Iterator[RunningPostgres]:
    """One PostgreSQL; `postgres.database()` makes a database that no other test uses."""
    with running(RunningPostgres) as server:
        yield server


@contextmanager
def _service(home: Path, jar_folder: Path, connection: Connection, wanted: Services) -> Iterator[ServiceAddress]:
    context = ServiceContext(home, jar_folder, connection, nodes=1, secure=False)
    (name,) = wanted.named()
    try:
        yield control.LocalServices(context).up(wanted)[name]
    finally:
        control.stop(home, name)


@pytest.fixture(scope="session")
def registry_home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="penstock-registry-") as place:
        yield Path(place)


@pytest.fixture(scope="session")
def registry(jar_folder: Path, registry_home: Path) -> Iterator[ServiceAddress]:
    """One schema registry; subjects are shared, so each test names its own."""
    nowhere = Connection(bootstrap_servers="127.0.0.1:1")
    with _service(registry_home, jar_folder, nowhere, Services(registry=RegistryService(port=0))) as address:
        yield address


@pytest.fixture(scope="session")
def connect(kafka: RunningKafka, jar_folder: Path) -> Iterator[ServiceAddress]:
    """One worker of Kafka Connect on the plaintext broker; `kafka.home` has its folder."""
    wanted = ConnectService(port=0, plugins=(DEBEZIUM_POSTGRES,))
    with _service(kafka.home, jar_folder, kafka.connection, Services(connect=wanted)) as address:
        yield address


@pytest.fixture(scope="session")
def logical_postgres() -> Iterator[RunningPostgres]:
    """One PostgreSQL whose changes can be captured."""
    with running(partial(RunningPostgres, logical=True)) as server:
        yield server


def _skip_without(find_server: Callable[[], object]) -> None:
    try:
        find_server()
    except EnvironmentNotReady as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RunningRedis]:
    """One Redis that flushes before it answers. A test that kills it starts it again."""
    _skip_without(throwaway_redis.find_server)
    with running(partial(RunningRedis, persistence="always")) as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RunningRabbitMQ]:
    """One RabbitMQ. A test that kills it starts it again."""
    _skip_without(throwaway_rabbitmq.find_server)
    with running(RunningRabbitMQ) as server:
        yield server


@pytest.fixture(scope="session")
def spark(jar_folder: Path) -> Iterator["SparkSession"]:
    """One Spark, with Delta and the Kafka connector, for the pipelines that tests run in this process."""
    from penstock.driver import session

    with tempfile.TemporaryDirectory(prefix="penstock-spark-") as place:
        jars = [*ensure("delta", jar_folder), *ensure("spark-kafka", jar_folder)]
        started = session.start("tests", Path(place), master="local[2,4]", jars=jars)
        # Tables of a test are small: by default their logs are read in fifty tasks.
        started.conf.set("spark.databricks.delta.snapshotPartitions", "1")
        yield started
        started.stop()


@pytest.fixture
def lab(kafka: RunningKafka, spark: "SparkSession", tmp_path: Path) -> "Lab":
    """Run pipelines in this process, against the plaintext broker."""
    from support.pipelines import Lab

    return Lab(kafka, spark, tmp_path)


@dataclass(frozen=True)
class Said:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error_lines(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("error:")]


Cli = Callable[..., Said]


@pytest.fixture(scope="session")
def forker() -> Iterator[Forker]:
    """Yield the process that commands are forked from."""
    with closing(Forker()) as started:
        yield started


@pytest.fixture
def cli(forker: Forker, tmp_path: Path) -> Cli:
    """Run `penstock` as a user would, in an empty folder unless `home` or `cwd` says otherwise."""

    def run(
        *arguments: str | Path | int,
        home: Path | None = None,
        cwd: Path | None = None,
        stdin: str | bytes = "",
        **env: str,
    ) -> Said:
        done = forker.run(
            [*(["--home", str(home)] if home else []), *map(str, arguments)],
            cwd=cwd or tmp_path,
            env={**os.environ, **env},
            stdin=stdin.encode() if isinstance(stdin, str) else stdin,
            timeout_s=480,
        )
        return Said(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    return run
