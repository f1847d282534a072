import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker import ports
from penstock.broker.cluster import Cluster
from penstock.config.project import LocalCluster
from penstock.errors import BadInput, Conflict

HOST = "127.0.0.1"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that this process listens on, among those that a cluster may be given."""
    (port,) = ports.find_free(HOST, 1)
    with socket.create_server((HOST, port)):
        yield port


def test_a_taken_port_is_named_with_the_process_that_has_it(taken: int) -> None:
    with pytest.raises(Conflict) as caught:
        ports.require_free(HOST, [taken])

    assert caught.value.what.startswith(f"port {taken} on {HOST} is in use by ")
    assert caught.value.what.endswith(f"(process {os.getpid()})")
    assert "Nothing was started" == caught.value.safe


def test_a_taken_port_among_free_ones_is_found(taken: int) -> None:
    (free,) = ports.find_free(HOST, 1)

    with pytest.raises(Conflict, match=f"port {taken} "):
        ports.require_free(HOST, [free, taken])


def test_a_port_that_was_let_go_is_free_again() -> None:
    with socket.create_server((HOST, 0)) as server, socket.create_connection(server.getsockname()):
        port = int(server.getsockname()[1])
        server.accept()[0].close()

    ports.require_free(HOST, [port])


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^192\.0\.2\.1 is not an address of this machine$"):
        ports.require_free("192.0.2.1", [9092])


def test_the_found_ports_are_distinct_and_free() -> None:
    found = ports.find_free(HOST, 30)

    ports.require_free(HOST, found)
    assert 30 == len(set(found))
    assert min(found) > 1023


def test_programs_with_one_seed_do_not_find_the_same_ports() -> None:
    random.seed(1)
    first = ports.find_free(HOST, 5)
    random.seed(1)

    assert first != ports.find_free(HOST, 5)


def test_finding_none_gives_none() -> None:
    assert [] == ports.find_free(HOST, 0)


def test_a_cluster_that_is_there_is_not_told_to_take_another_port(taken: int, tmp_path: Path) -> None:
    """It keeps the ports that it was made with: `up --port` would be refused."""
    cluster = Cluster(tmp_path / "broker", tmp_path)
    with pytest.raises(Conflict) as new:
        cluster.up(LocalCluster(port=taken))
    cluster.planned(LocalCluster(port=taken)).save(cluster.folder)
    with pytest.raises(Conflict) as there:
        cluster.up(LocalCluster())

    assert "penstock up --port PORT" in new.value.fix
    assert there.value.fix.startswith("Free it, and run: penstock up. A cluster keeps the ports")
