from pathlib import Path

import pytest

from penstock.broker import planning
from penstock.broker.cluster import Cluster
from penstock.config.project import LocalCluster
from penstock.errors import BadInput, Conflict


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "broker", tmp_path / "jars")


def test_a_cluster_id_never_looks_like_an_option(cluster: Cluster) -> None:
    ids = [cluster.planned(LocalCluster()).cluster_id for _ in range(2000)]

    assert [] == [each for each in ids if each.startswith("-")]
    assert {22} == {len(each) for each in ids}


@pytest.mark.parametrize(("nodes", "voters", "copies"), [(1, 1, 1), (2, 1, 2), (3, 3, 3), (5, 3, 3)])
def test_three_nodes_vote_or_one_and_copies_follow_the_nodes(
    cluster: Cluster, nodes: int, voters: int, copies: int
) -> None:
    plan = cluster.planned(LocalCluster(nodes=nodes))

    assert (nodes, voters, copies) == (len(plan.nodes), len(plan.controllers), plan.replication)


def test_ports_follow_the_first_and_never_meet(cluster: Cluster) -> None:
    plan = cluster.planned(LocalCluster(nodes=3, port=19_000, secure=True))

    assert [19_000, 19_001, 19_002] == [node.client_port for node in plan.nodes]
    assert 9 == len({port for node in plan.nodes for port in node.ports})


def test_a_port_too_high_for_its_followers_is_refused(cluster: Cluster) -> None:
    with pytest.raises(BadInput, match="too high"):
        cluster.planned(LocalCluster(nodes=9, port=45_000).model_copy(update={"port": 46_000}))


@pytest.mark.parametrize(
    ("asked", "what", "fix"),
    [
        (
            LocalCluster(nodes=3),
            "this cluster was made with `nodes: 1`, and cannot change to `nodes: 3`",
            "Leave --nodes out, or set nodes: 1 in penstock.yaml, to start it as it is; `penstock node add` makes it larger. ",  # noqa: E501 - as it is said
        ),
        (
            LocalCluster(secure=True),
            "this cluster was made with `secure: false`, and cannot change to `secure: true`",
            "Leave --secure out, or set secure: false in penstock.yaml, to start it as it is. ",
        ),
    ],
)
def test_what_contradicts_the_data_is_refused_with_what_they_were_made_with(
    cluster: Cluster, asked: LocalCluster, what: str, fix: str
) -> None:
    made = cluster.planned(LocalCluster())

    with pytest.raises(Conflict) as caught:
        planning.same_or_refuse(made, made.kafka_version, asked)

    assert (what, f"{fix}To make another cluster, name another folder: --home FOLDER") == (
        caught.value.what,
        caught.value.fix,
    )
