from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.config import cluster_state as state
from penstock.config.cluster_state import ClusterState, NodeState
from penstock.errors import Conflict


def node(node_id: int, *, controller: bool = True, secure: bool = False) -> NodeState:
    return NodeState(
        id=node_id,
        controller=controller,
        client_port=9091 + node_id,
        controller_port=19_091 + node_id if controller else None,
        internal_port=29_091 + node_id if secure else None,
    )


def cluster(*nodes: NodeState, secure: bool = False) -> ClusterState:
    return ClusterState(
        cluster_id="4L6g3nShT-eMCtK--X86sw",
        kafka_version="4.3.1",
        host="127.0.0.1",
        secure=secure,
        heap_bytes=512_000_000,
        replication=min(3, len(nodes)),
        first_nodes=len(nodes),
        next_node_id=len(nodes) + 1,
        nodes=nodes,
    )


def test_what_is_saved_is_loaded_again(tmp_path: Path) -> None:
    saved = cluster(node(1), node(2), node(3), node(7, controller=False))
    saved.save(tmp_path / "not" / "there" / "yet")

    assert saved == state.load(tmp_path / "not" / "there" / "yet")


def test_saving_replaces_what_was_there_and_leaves_nothing_aside(tmp_path: Path) -> None:
    cluster(node(1)).save(tmp_path)
    later = cluster(node(1), node(2))
    later.save(tmp_path)

    assert later == state.load(tmp_path)
    assert ["cluster.json"] == [path.name for path in tmp_path.iterdir()]


def test_half_a_save_leaves_the_old_state(tmp_path: Path) -> None:
    old = cluster(node(1))
    old.save(tmp_path)
    (tmp_path / "cluster.json.new").write_text('{"cluster_id": "4L6')

    assert old == state.load(tmp_path)


@pytest.mark.parametrize("name", ["empty", "missing"])
def test_where_no_cluster_was_made_there_is_no_state(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()

    assert state.load(tmp_path / name) is None


def test_logs_without_data_are_no_cluster(tmp_path: Path) -> None:
    (tmp_path / "node-1" / "logs").mkdir(parents=True)

    assert state.load(tmp_path) is None


def test_data_without_the_file_are_never_built_upon(tmp_path: Path) -> None:
    data = tmp_path / "node-2" / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("version=1\n")

    with pytest.raises(Conflict) as caught:
        state.load(tmp_path)

    assert f"{tmp_path} holds Kafka data, but cluster.json, which says how they were made, is gone" == caught.value.what
    assert "The data are untouched" == caught.value.safe


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda _content: b"", id="empty"),
        pytest.param(lambda content: content[: len(content) // 2], id="truncated"),
        pytest.param(lambda _content: b"\xff\xfe\x00", id="not text"),
        pytest.param(lambda _content: b"[]", id="a list"),
        pytest.param(lambda content: content.replace(b"cluster_id", b"cluster_ix"), id="another key"),
        pytest.param(lambda content: content.replace(b"9092", b'"x"'), id="another type"),
        pytest.param(lambda content: bytes(len(content)), id="zeros"),
    ],
)
def test_a_damaged_file_is_refused_and_stays_as_it_is(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    cluster(node(1)).save(tmp_path)
    file = tmp_path / "cluster.json"
    damaged = damage(file.read_bytes())
    file.write_bytes(damaged)

    with pytest.raises(Conflict) as caught:
        state.load(tmp_path)

    assert f"{file} is damaged or cannot be read" == caught.value.what
    assert damaged == file.read_bytes()


def test_clients_and_nodes_have_their_own_addresses() -> None:
    made = cluster(node(1, secure=True), node(2, secure=True), secure=True)

    assert "127.0.0.1:9092,127.0.0.1:9093" == made.bootstrap_servers
    assert "127.0.0.1:29092,127.0.0.1:29093" == made.internal_servers


def test_an_added_node_has_no_vote_and_fewer_ports() -> None:
    first, added = node(1, secure=True), node(2, controller=False, secure=True)
    made = cluster(first, added, secure=True)

    assert (first,) == made.controllers
    assert [(9092, 19_092, 29_092), (9093, 29_093)] == [each.ports for each in made.nodes]


def test_a_node_is_found_by_its_id() -> None:
    made = cluster(node(1), node(4))

    assert [node(4), None] == [made.node(4), made.node(2)]
