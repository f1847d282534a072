import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.config.local_services import ServiceState
from penstock.config.services import ConnectService
from penstock.jvm import jars
from penstock.kafka.connection import Connection
from penstock.kafka.security import Plaintext, Scram, Security, Tls
from penstock.secret import Secret
from penstock.services.connect import Connect, plugins_folder
from penstock.services.context import ServiceContext


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceContext:
    jars_of = [Path(f"/jars/org.apache.kafka__connect-{name}-4.3.1.jar") for name in ("runtime", "file")]
    monkeypatch.setattr(jars, "ensure", lambda *_given: jars_of)
    monkeypatch.setattr("penstock.services.connect.find_java", lambda: (Path("/usr/bin/java"), 17))
    return ServiceContext(tmp_path, tmp_path / "jars", Connection(bootstrap_servers="127.0.0.1:9092"), 5, secure=False)


def properties(context: ServiceContext) -> dict[str, str]:
    state = ServiceState(name="connect", host="127.0.0.1", port=8083, inner_port=None, secure=False)
    Connect(ConnectService(group="etl")).prepare(context, state)
    lines = (context.folder("connect") / "connect.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def plugin(context: ServiceContext, name: str, entry: str) -> None:
    folder = plugins_folder(context.folder("connect")) / name
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "connector.jar", "w") as jar:
        jar.writestr(entry, "example.Connector")


def test_topics_of_the_worker_have_three_replicas_where_there_are_as_many_nodes(context: ServiceContext) -> None:
    found = properties(context)

    kinds = ("config", "offset", "status")
    assert ["3", "3", "3"] == [found[f"{kind}.storage.replication.factor"] for kind in kinds]
    assert ["etl-configs", "etl-offsets", "etl-status"] == [found[f"{kind}.storage.topic"] for kind in kinds]
    assert "http://127.0.0.1:8083" == found["listeners"].replace("\\\\", "")


def test_only_a_plugin_without_a_manifest_makes_the_worker_look_through_every_class(context: ServiceContext) -> None:
    alone = properties(context)["plugin.discovery"]
    plugin(context, "new", "META-INF/services/org.apache.kafka.connect.sink.SinkConnector")
    with_new = properties(context)["plugin.discovery"]
    plugin(context, "old", "example/Connector.class")
    with_old = properties(context)["plugin.discovery"]

    assert ["service_load", "service_load", "hybrid_warn"] == [alone, with_new, with_old]


def test_the_worker_asks_for_a_login_on_any_cluster(context: ServiceContext) -> None:
    found = properties(context)
    folder = context.folder("connect")

    assert found["rest.extension.classes"].endswith("BasicAuthSecurityRestExtension")
    password = (folder / "login.password").read_text().strip()
    assert f"connect={password}" == (folder / "login.properties").read_text().strip()
    assert {0o600} == {(folder / name).stat().st_mode & 0o777 for name in ("login.properties", "jaas.conf")}


@pytest.mark.parametrize(
    ("servers", "security", "has_files"),
    [
        ("127.0.0.1:9092,localhost:9093", Plaintext(), True),
        ("[::1]:9092", Plaintext(), True),
        ("0.0.0.0:9092", Plaintext(), False),
        ("127.0.0.1:9092,kafka.example.com:9092", Plaintext(), False),
        ("kafka.example.com:9092", Tls(), False),
        ("kafka.example.com:9092", Scram(username="u", password=Secret.of("p")), True),
    ],
)
def test_where_anybody_writes_to_kafka_no_connector_reads_or_writes_files(
    context: ServiceContext, servers: str, security: Security, *, has_files: bool
) -> None:
    connection = Connection(bootstrap_servers=servers, security=security)
    state = ServiceState(name="connect", host="127.0.0.1", port=8083, inner_port=None, secure=False)

    worker = Connect(ConnectService()).prepare(replace(context, connection=connection), state).programs[0].command

    assert has_files == any("connect-file" in each for each in worker)
    assert any("connect-runtime" in each for each in worker)
