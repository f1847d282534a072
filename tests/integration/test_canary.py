"""A secret in every place where one can be given, then looked for in every place where none belongs.

Everything runs as a user has it, with a umask of 000, failures on the way, and modules of a stranger's in the working
folder.
"""

import itertools
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import yaml

from penstock.broker.cluster import Cluster
from penstock.config.local_connection import local_connection
from penstock.interpreter import SAFE_PYTHON
from penstock.kafka import acls, topics
from penstock.kafka.acls import Acl, Resource
from penstock.kafka.admin import Admin
from penstock.kafka.reader import read_all
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.private import write_private

from conftest import Said

CANARY = "canary-5e1f"
_numbers = itertools.count(1)
TRANSPORTS = """
from penstock.errors import PenstockError
from penstock.transports.address import open_transport
for address in ("redis://app@127.0.0.1:1/0?password=env:IN_ADDRESS", "amqp://app@127.0.0.1:1/?password=env:IN_ADDRESS"):
    try:
        open_transport(address).send("place", [])
    except (PenstockError, TypeError, AttributeError) as error:
        print(repr(error), error)
"""


def canary() -> str:
    """Give a secret that is like no other and known as one at a glance."""
    return f"{CANARY}-{next(_numbers)}"


class Watch(threading.Thread):
    """Looks at the command lines of all processes, and at the ports and environments of those that we started."""

    def __init__(self, temporary: Path) -> None:
        super().__init__(daemon=True)
        self._temporary = temporary
        self.lines: set[str] = set()
        self.addresses: set[str] = set()
        self.nodes: dict[int, dict[str, str]] = {}
        self.passing: dict[str, int] = {}
        """What was in the temporary folder, with its mode."""
        self.command: int | None = None
        """The process whose ports are looked at, with those that it started."""
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.3):
            for process in psutil.process_iter():
                self._look_at(process)
            for entry in os.scandir(self._temporary):
                with suppress(FileNotFoundError):
                    self.passing[entry.name] = entry.stat(follow_symlinks=False).st_mode & 0o777
            with suppress(psutil.Error):
                for process in psutil.Process(self.command).children(recursive=True) if self.command else ():
                    self._look_at_ports(process)

    def _look_at(self, process: psutil.Process) -> None:
        with suppress(psutil.Error):  # it has ended, or belongs to somebody else
            line = process.cmdline()
            self.lines.add("\0".join(line))
            if "kafka.Kafka" in line and process.pid not in self.nodes:
                self.nodes[process.pid] = {**process.environ(), "line": " ".join(line)}

    def _look_at_ports(self, process: psutil.Process) -> None:
        with suppress(psutil.Error):
            found = process.net_connections("inet")
            self.addresses |= {each.laddr[0] for each in found if each.status == psutil.CONN_LISTEN}

    def stop(self) -> None:
        self._over.set()
        self.join(30)


@dataclass
class Scene:
    """A project with a cluster of its own, whose commands hold secrets that they need and secrets that they do not."""

    folder: Path
    environment: dict[str, str]
    watch: Watch
    said: list[Said] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.folder / "project" / ".penstock"

    def run(self, *arguments: str | Path, fails: bool = False, stdin: str = "", **environment: str) -> Said:
        command = [*SAFE_PYTHON, "-m", "penstock", *map(str, arguments)]
        return self.program(command, fails=fails, stdin=stdin, environment=environment)

    def program(self, command: list[str], *, fails: bool = False, stdin: str = "", environment: dict[str, str]) -> Said:
        with subprocess.Popen(
            command,
            cwd=self.folder / "project",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            umask=0,
            env={**os.environ, **self.environment, **environment},
        ) as process:
            self.watch.command = process.pid
            out, err = process.communicate(stdin, timeout=180)
        said = Said(process.returncode, out, err)
        self.said.append(said)
        assert fails == (said.code != 0), said.err.replace(CANARY, "(secret)")
        return said


@pytest.fixture
def scene(tmp_path: Path, jar_folder: Path) -> Iterator[Scene]:
    for name in ("project", "tmp", "given"):
        (tmp_path / name).mkdir(mode=0o755)
    environment = {
        "TMPDIR": str(tmp_path / "tmp"),
        "KAFKA_PASSWORD": canary(),
        "IN_ADDRESS": canary(),
        "ACCOUNT_KEY": canary(),
        "AWS_SECRET_ACCESS_KEY": canary(),
        "PENSTOCK_DEBUG": "1",
    }
    for name in ("penstock", "pandas", "pyarrow", "pyspark", "yaml"):
        planted = tmp_path / "project" / name / "__init__.py"
        planted.parent.mkdir()
        planted.write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__)\n")
    watch = Watch(tmp_path / "tmp")
    watch.start()
    made = Scene(tmp_path, environment, watch)
    yield made
    watch.stop()
    cluster = Cluster(made.home / "broker", jar_folder)
    if cluster.state() is not None:
        cluster.down()


def pipeline(scene: Scene, postgres: RunningPostgres, password: Path) -> Path:
    server = postgres.database("canary")
    sink = {
        "type": "postgres",
        "table": "orders",
        "mode": "append",
        "server": {
            "host": server.host,
            "port": server.port,
            "database": server.database,
            "user": server.user,
            "password": f"file:{password}",
            "sslmode": "disable",
        },
    }
    document = {
        "name": "canary",
        "source": {"type": "kafka", "topics": ["orders"]},
        "decode": {"type": "json", "schema": "id bigint NOT NULL"},
        "steps": [{"sql": "SELECT *, 1 / id AS share FROM events"}],
        "sinks": [
            sink,
            {"type": "kafka", "topic": "copies"},
            {"type": "json", "path": str(scene.folder / "rows")},
        ],
        "speed": "scheduled",
        "spark": {
            "spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net": "env:ACCOUNT_KEY",
            "spark.hadoop.shop.pin": canary(),  # nothing tells that this is one; it is in this file alone
        },
    }
    file = scene.folder / "given" / f"{password.stem}.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def greeting(server: str) -> str:
    """Give what a port says to somebody who just asks."""
    host, _, port = server.partition(":")
    with socket.create_connection((host, int(port)), timeout=5) as asking:
        asking.sendall(b"GET / HTTP/1.0\r\n\r\n")
        asking.settimeout(2)
        try:
            return asking.recv(65536).decode("latin-1")
        except OSError:
            return ""


def fail_to_log_in(scene: Scene, broker: Path) -> Path:
    """Give passwords that are wrong, or in the wrong place; the file that holds one is given back."""
    scene.run("topic", "list", fails=True, KAFKA_PASSWORD=canary())
    scene.run(
        "topic",
        "list",
        fails=True,
        PENSTOCK_SECURITY_TYPE="plain",
        PENSTOCK_SECURITY_USERNAME="shop",
        PENSTOCK_SECURITY_PASSWORD=canary(),
        PENSTOCK_SECURITY_CA_FILE=str(broker / "secrets/ca.pem"),
    )
    pem = str(broker / "secrets/node-1.pem")
    scene.run(
        "topic",
        "list",
        fails=True,
        PENSTOCK_SECURITY_TYPE="mtls",
        PENSTOCK_SECURITY_CERTIFICATE_FILE=pem,
        PENSTOCK_SECURITY_KEY_FILE=pem,
        PENSTOCK_SECURITY_KEY_PASSWORD=canary(),
        PENSTOCK_SECURITY_CA_FILE=str(broker / "secrets/ca.pem"),
    )
    scene.program([*SAFE_PYTHON, "-c", TRANSPORTS], environment={})
    scene.run("topic", "list", fails=True, PENSTOCK_BOOTSTRAP_SERVERS=f"kafka://shop:{canary()},x@127.0.0.1:1")
    tagged = scene.folder / "given/tagged.yaml"
    tagged.write_text(f"cluster: {{security: {{password: !{canary()} }}}}\n")
    scene.run("--project", tagged, "topic", "list", fails=True)
    return tagged


def test_no_secret_is_where_it_does_not_belong(scene: Scene, postgres: RunningPostgres) -> None:
    watch = scene.watch
    given = {name: scene.folder / "given" / f"{name}.password" for name in ("shop", "wrong")}
    for name, file in given.items():
        write_private(file, (scene.environment["KAFKA_PASSWORD"] if name == "shop" else canary()).encode())
    postgres_password = scene.folder / "given" / "postgres.password"
    write_private(postgres_password, postgres.password.encode())

    scene.run("up", "--secure", "--port", "0", "--heap", "256MB")
    scene.run("user", "add", "shop", "--password-file", given["shop"])
    broker = scene.home / "broker"
    admin = Admin(local_connection(broker))
    for topic in ("orders", "copies"):
        topics.create(admin, topic, TopicSpec())
    resources: tuple[Resource, ...] = ("topic", "group", "transactional_id")
    acls.allow(admin, [Acl(user="shop", operation="all", resource=each, name="*") for each in resources])
    project = {
        "cluster": {
            "type": "external",
            "bootstrap_servers": local_connection(broker).bootstrap_servers,
            "security": {
                "type": "scram",
                "username": "shop",
                "password": "env:KAFKA_PASSWORD",
                "ca_file": str(broker / "secrets/ca.pem"),
            },
        }
    }
    (scene.folder / "project/penstock.yaml").write_text(yaml.safe_dump(project))
    scene.run("produce", "orders", stdin='{"id": 1}\n{"id": 0}\nmalformed\n')
    tagged = fail_to_log_in(scene, broker)
    pipelines = [pipeline(scene, postgres, each) for each in (given["wrong"], postgres_password)]
    scene.run("pipeline", "run", pipelines[0], "--master", "local[1,4]", fails=True)
    pipelines[0].unlink()  # the other one takes over its name
    scene.run("pipeline", "run", pipelines[1], "--master", "local[1,4]")
    dead = scene.run("dead", "list", "--letters", "--json")
    messages = [
        repr((message.key(), message.value(), message.headers()))
        for topic in admin.metadata("looking").topics
        for message in read_all(admin.connection, topic)
    ]
    answers = [greeting(each) for each in admin.connection.bootstrap_servers.split(",")]
    watch.stop()

    secrets = (CANARY, postgres.password)

    def leaks(text: str) -> bool:
        return any(each in text for each in secrets)

    kept = {*given.values(), postgres_password, tagged, *pipelines, *(broker / "secrets/users").iterdir()}
    files = [path for path in scene.folder.rglob("*") if path.is_file() and path not in kept]
    assert 2 == len(dead.json), "two records failed"
    assert len(messages) > 5, "messages were looked at"
    assert [] == [said.code for said in scene.said if leaks(said.out + said.err)]
    assert [] == [line.split("\0")[:3] for line in watch.lines if leaks(line)]
    assert [] == [path for path in files if leaks(path.read_bytes().decode("latin-1"))]
    assert [] == [index for index, text in enumerate([*messages, *answers]) if leaks(text)]
    nodes = [each for each in watch.nodes.values() if str(broker) in each["line"]]
    assert (1, []) == (len(nodes), [sorted(each) for each in nodes if leaks(str(each))])
    assert {"127.0.0.1"} == {address.removeprefix("::ffff:") for address in watch.addresses}
    assert not (scene.folder / "ran").exists(), "a stranger's module ran"
    assert any(name.startswith("penstock-jvm-") for name in watch.passing), "temporary files were looked at"
    assert {} == {name: oct(mode) for name, mode in watch.passing.items() if mode & 0o077}
    assert 0o600 == (scene.folder / "rows/.penstock.lock").stat().st_mode & 0o777
    # What Spark makes has the user's umask: the folders above it let nobody pass.
    guards = [scene.home, scene.home / "pipelines" / "canary"]
    ours = [*guards, *broker.rglob("*"), *(path for path in guards[1].rglob("*.json"))]
    assert [] == [path for path in ours if path.lstat().st_mode & 0o077]
