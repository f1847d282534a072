from pathlib import Path

import pytest

from penstock.broker.cluster import Cluster
from penstock.config.project import LocalCluster
from penstock.errors import BadInput


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
