"""A secret in every place where one can be given, then looked for in every place where none belongs.

Everything runs as a user has it, with a umask of 000, failures on the way, and modules of a stranger's in the working
folder. What services get is in `test_canary_services.py`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from penstock.config.local_connection import local_connection
from penstock.interpreter import SAFE_PYTHON
from penstock.kafka import acls, topics
from penstock.kafka.acls import Acl, Resource
from penstock.kafka.admin import Admin
from penstock.kafka.reader import read_all
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.private import write_private

from support.canary import CANARY, Scene, canary, greeting, made_scene
from support.files import contents_under, paths_under
from support.registry_stub import registry_stub

TRANSPORTS = """
from penstock.errors import PenstockError
from penstock.transports.address import open_transport
for address in ("redis://app@127.0.0.1:1/0?password=env:IN_ADDRESS", "amqp://app@127.0.0.1:1/?password=env:IN_ADDRESS"):
    try:
        open_transport(address).send("place", [])
    except (PenstockError, TypeError, AttributeError) as error:
        print(repr(error), error)
"""


@pytest.fixture
def scene(tmp_path: Path, jar_folder: Path) -> Iterator[Scene]:
    with made_scene(tmp_path, jar_folder) as made:
        yield made


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


def fail_to_log_in(scene: Scene, broker: Path) -> Path:
    """Give passwords that are wrong, or in the wrong place; return the file that holds one."""
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
    with registry_stub() as registry:  # which repeats what it was told
        password = canary()
        registry.answer = (401, f'{{"error_code": 401, "message": "{password}"}}'.encode())
        login = {"PENSTOCK_REGISTRY_USERNAME": "shop", "PENSTOCK_REGISTRY_PASSWORD": password}
        scene.run("schema", "list", fails=True, PENSTOCK_REGISTRY_URL=registry.url, **login)
        assert 1 == len(registry.authorizations)
    scene.run("schema", "list", fails=True, PENSTOCK_REGISTRY_URL=f"http://shop:{canary()}@127.0.0.1:1")
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
    files = [(path, text) for path, text in contents_under(scene.folder) if path not in kept]
    assert 2 == len(dead.json), "two records failed"
    assert len(messages) > 5, "messages were looked at"
    assert [] == [said.code for said in scene.said if leaks(said.out + said.err)]
    assert [] == [line.split("\0")[:3] for line in watch.lines if leaks(line)]
    assert [] == [path for path, text in files if leaks(text.decode("latin-1"))]
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
    ours = [*paths_under(broker), *(found for found in paths_under(guards[1]) if found[0].suffix == ".json")]
    assert [] == [path for path, found in ours if found.st_mode & 0o077]
    assert [] == [path for path in guards if path.lstat().st_mode & 0o077]
