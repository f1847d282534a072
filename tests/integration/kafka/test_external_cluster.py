"""Every mechanism of an external cluster, on a broker with one listener for each."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from penstock.broker import ports
from penstock.broker.cluster import Cluster
from penstock.broker.readiness import wait_until
from penstock.config.local_connection import internal_connection
from penstock.config.project import LocalCluster
from penstock.errors import Transient
from penstock.jvm.java_properties import properties_text
from penstock.kafka import acls, topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.producer import Producer
from penstock.kafka.reader import read_all
from penstock.kafka.security import Mtls, Plain, Plaintext, Scram, Security, Tls
from penstock.kafka.topic_spec import TopicSpec
from penstock.secret import Secret

from conftest import Cli

PASSWORD = "pass-word of 'plain'"
PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
LISTENERS = {"PLAINTEXT": "PLAINTEXT", "TLS": "SSL", "MTLS": "SSL", "PLAIN": "SASL_SSL", "SCRAM": "SASL_SSL"}


@dataclass(frozen=True)
class External:
    """A cluster that is not of Penstock's own making, and where each mechanism is served."""

    servers: dict[str, str]
    cluster: Cluster
    topic: str

    def connection(self, listener: str, security: Security) -> Connection:
        return Connection(bootstrap_servers=self.servers[listener], security=security)


@pytest.fixture(scope="module")
def external(tmp_path_factory: pytest.TempPathFactory, jar_folder: Path) -> Iterator[External]:
    folder = tmp_path_factory.mktemp("external")
    cluster = Cluster(folder / "broker", jar_folder)
    known = cluster.up(LocalCluster(port=0, secure=True))
    # While it runs: the ports of a node that is stopped are free, and would be found.
    chosen = dict(zip(LISTENERS, ports.find_free("127.0.0.1", len(LISTENERS)), strict=True))
    cluster.down()
    node = cluster.node(1)
    lines = dict(line.split("=", 1) for line in node.properties.read_text().splitlines())
    more = ",".join(f"{name}://127.0.0.1:{port}" for name, port in chosen.items())
    protocols = ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items())
    lines["listeners"] += "," + more
    lines["advertised.listeners"] += "," + more
    lines["listener.security.protocol.map"] += "," + protocols
    lines |= {
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plain.plain.sasl.jaas.config": f'{PLAIN_LOGIN} user_app="{PASSWORD}";',
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.scram.scram-sha-256.sasl.jaas.config": f"{SCRAM_LOGIN};",
        "listener.name.scram.scram-sha-512.sasl.jaas.config": f"{SCRAM_LOGIN};",
    }
    node.properties.write_text(properties_text(lines))
    node.start(cluster.classpath(), known.heap_bytes)
    try:
        admin = Admin(internal_connection(cluster.folder, known))
        wait_until(lambda: bool(topics.list_topics(admin, internal=True)), timeout_s=60, waiting_for="the broker")
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialUpsertion("app", ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            admin.results(admin.client.alter_user_scram_credentials([change]), "adding app")
        topics.create(admin, "events", TopicSpec())
        for user in ("app", "ANONYMOUS"):
            acls.allow(admin, acls.producer_acls(user, ["events"]) + acls.consumer_acls(user, ["events"], ["*"]))
        servers = {name: f"127.0.0.1:{port}" for name, port in chosen.items()}
        yield External(servers, cluster, "events")
    finally:
        node.stop(30)
        shutil.rmtree(folder)


def password() -> Secret:
    return Secret.of(PASSWORD)


MECHANISMS: dict[str, tuple[str, Callable[[Path, Path], Security]]] = {
    "plaintext": ("PLAINTEXT", lambda _ca, _pem: Plaintext()),
    "tls": ("TLS", lambda ca, _pem: Tls(ca_file=ca)),
    "mtls": ("MTLS", lambda ca, pem: Mtls(ca_file=ca, certificate_file=pem, key_file=pem)),
    "plain": ("PLAIN", lambda ca, _pem: Plain(ca_file=ca, username="app", password=password())),
    "scram-256": (
        "SCRAM",
        lambda ca, _pem: Scram(ca_file=ca, username="app", password=password(), mechanism="SCRAM-SHA-256"),
    ),
    "scram-512": ("SCRAM", lambda ca, _pem: Scram(ca_file=ca, username="app", password=password())),
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_writes_and_reads_with_every_mechanism(external: External, mechanism: str) -> None:
    listener, make = MECHANISMS[mechanism]
    files = external.cluster.files
    connection = external.connection(listener, make(files.ca_pem, files.node_pem(1)))

    with Producer(connection) as producer:
        producer.send(external.topic, mechanism)

    assert mechanism.encode() in [message.value() for message in read_all(connection, external.topic)]


def test_a_project_file_names_an_external_cluster_and_its_login(external: External, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/password").write_text(PASSWORD + "\n")
    (tmp_path / "secrets/ca.pem").write_bytes(external.cluster.files.ca_pem.read_bytes())
    (tmp_path / "penstock.yaml").write_text(
        f"""
cluster:
  type: external
  bootstrap_servers: {external.servers["SCRAM"]}
  security: {{type: scram, username: app, password: 'file:secrets/password', ca_file: secrets/ca.pem}}
"""
    )
    elsewhere = tmp_path / "deeper"
    elsewhere.mkdir()

    listed = cli("topic", "list", "--json", cwd=elsewhere)
    refused = cli("up", cwd=elsewhere)

    assert ["events"] == [topic["topic"] for topic in listed.json]
    assert refused.code == 6
    assert "is an external one" in refused.error_lines[0]


def test_the_environment_can_say_it_all(external: External, cli: Cli) -> None:
    said = cli(
        "topic",
        "list",
        "--json",
        PENSTOCK_BOOTSTRAP_SERVERS=external.servers["PLAIN"],
        PENSTOCK_SECURITY_TYPE="plain",
        PENSTOCK_SECURITY_USERNAME="app",
        PENSTOCK_SECURITY_PASSWORD=PASSWORD,
        PENSTOCK_SECURITY_CA_FILE=str(external.cluster.files.ca_pem),
    )

    assert ["events"] == [topic["topic"] for topic in said.json]


def test_a_transient_error_is_what_an_outage_is(external: External) -> None:
    nobody = Connection(bootstrap_servers="127.0.0.1:1", security=Tls(ca_file=external.cluster.files.ca_pem))

    with pytest.raises(Transient):
        topics.list_topics(Admin(nobody))
