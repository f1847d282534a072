from pathlib import Path

import pytest

from penstock.broker.certificates import Certificates
from penstock.broker.properties import server_properties
from penstock.config.cluster_state import ClusterState, NodeState
from penstock.config.secrets_folder import SecretsFolder


def cluster(voters: int, *, added: int = 0, secure: bool = False) -> ClusterState:
    nodes = tuple(
        NodeState(
            id=number,
            controller=number <= voters,
            client_port=9091 + number,
            controller_port=19_091 + number if number <= voters else None,
            internal_port=29_091 + number if secure else None,
        )
        for number in range(1, voters + added + 1)
    )
    return ClusterState(
        cluster_id="4L6g3nShT-eMCtK--X86sw",
        kafka_version="4.3.1",
        host="127.0.0.1",
        secure=secure,
        heap_bytes=512_000_000,
        replication=voters,
        first_nodes=voters,
        next_node_id=voters + added + 1,
        nodes=nodes,
    )


def written(state: ClusterState, node_id: int, folder: Path) -> dict[str, str]:
    node = state.node(node_id)
    assert node is not None
    text = server_properties(state, node, folder / "data", SecretsFolder.of(folder))
    pairs = [line.split("=", 1) for line in text.splitlines()]
    assert len(pairs) == len({name for name, _ in pairs}), "a name stands twice"
    return {name: value for name, value in pairs}  # noqa: C416 - lists of two, not tuples


def test_one_node_is_broker_and_controller_on_the_loopback(tmp_path: Path) -> None:
    actual = written(cluster(1), 1, tmp_path)

    expected = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.quorum.voters": "1@127.0.0.1:19092",
        "listeners": "CLIENT://127.0.0.1:9092,CONTROLLER://127.0.0.1:19092",
        "advertised.listeners": "CLIENT://127.0.0.1:9092",
        "inter.broker.listener.name": "CLIENT",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(tmp_path / "data"),
    }
    assert expected.items() <= actual.items()


@pytest.mark.parametrize(
    ("voters", "replication", "min_insync"), [(1, "1", "1"), (3, "3", "2")], ids=["one node", "three nodes"]
)
def test_every_internal_topic_is_copied_as_often_as_the_cluster_allows(
    tmp_path: Path, voters: int, replication: str, min_insync: str
) -> None:
    actual = written(cluster(voters), 1, tmp_path)

    copied = ("default", "offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    assert {replication} == {actual[f"{name}.replication.factor"] for name in copied}
    guarded = ("min.insync.replicas", "transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr")
    assert {min_insync} == {actual[name] for name in guarded}


def test_three_nodes_agree_on_the_voters_and_differ_in_the_rest(tmp_path: Path) -> None:
    state = cluster(3)

    written_by_id = {node.id: written(state, node.id, tmp_path) for node in state.nodes}

    voters = {each["controller.quorum.voters"] for each in written_by_id.values()}
    assert {"1@127.0.0.1:19092,2@127.0.0.1:19093,3@127.0.0.1:19094"} == voters
    assert ["1", "2", "3"] == [each["node.id"] for each in written_by_id.values()]
    assert "CLIENT://127.0.0.1:9094,CONTROLLER://127.0.0.1:19094" == written_by_id[3]["listeners"]


def test_an_added_node_is_a_broker_without_a_vote(tmp_path: Path) -> None:
    actual = written(cluster(1, added=1), 2, tmp_path)

    expected = {
        "process.roles": "broker",
        "controller.quorum.voters": "1@127.0.0.1:19092",
        "listeners": "CLIENT://127.0.0.1:9093",
        "advertised.listeners": "CLIENT://127.0.0.1:9093",
    }
    assert expected.items() <= actual.items()


@pytest.mark.parametrize("secure", [False, True], ids=["open", "secure"])
def test_no_node_makes_topics_by_itself_or_elects_one_that_lacks_records(tmp_path: Path, *, secure: bool) -> None:
    actual = written(cluster(1, secure=secure), 1, tmp_path)

    assert ["false", "false"] == [actual["auto.create.topics.enable"], actual["unclean.leader.election.enable"]]


def test_a_secure_node_encrypts_every_listener_and_denies_by_default(tmp_path: Path) -> None:
    files = SecretsFolder.of(tmp_path)

    actual = written(cluster(1, secure=True), 1, tmp_path)

    expected = {
        "listeners": "CLIENT://127.0.0.1:9092,INTERNAL://127.0.0.1:29092,CONTROLLER://127.0.0.1:19092",
        "advertised.listeners": "CLIENT://127.0.0.1:9092,INTERNAL://127.0.0.1:29092",
        "inter.broker.listener.name": "INTERNAL",
        "listener.security.protocol.map": "CLIENT:SASL_SSL,INTERNAL:SSL,CONTROLLER:SSL",
        "listener.name.internal.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "ssl.keystore.location": str(files.node_pem(1)),
        "ssl.truststore.location": str(files.ca_pem),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": "User:CN=penstock-node;User:admin",
    }
    assert expected.items() <= actual.items()


def test_an_added_secure_node_has_an_internal_listener_and_no_controller(tmp_path: Path) -> None:
    actual = written(cluster(1, added=1, secure=True), 2, tmp_path)

    assert "CLIENT://127.0.0.1:9093,INTERNAL://127.0.0.1:29093" == actual["listeners"]


def test_no_secret_is_written_out(tmp_path: Path) -> None:
    files = SecretsFolder.of(tmp_path)
    Certificates(files).ensure_ca()
    Certificates(files).ensure_node(1, "127.0.0.1")
    password = files.new_password("admin").read_text().strip()

    text = "\n".join(written(cluster(1, secure=True), 1, tmp_path).values())

    key_lines = files.node_pem(1).read_text().splitlines()[1:3]
    assert [] == [secret for secret in (password, "PRIVATE KEY", *key_lines) if secret in text]


@pytest.mark.parametrize(("heap_bytes", "buffer_bytes"), [(128_000_000, 16_000_000), (10**10, 2**27)])
def test_compaction_leaves_most_of_a_small_heap_to_the_node(tmp_path: Path, heap_bytes: int, buffer_bytes: int) -> None:
    actual = written(cluster(1).model_copy(update={"heap_bytes": heap_bytes}), 1, tmp_path)

    assert str(buffer_bytes) == actual["log.cleaner.dedupe.buffer.size"]
