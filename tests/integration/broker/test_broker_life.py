"""A local cluster through its life, by the commands a user types."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.broker.cluster import Cluster
from penstock.broker.node import Node
from penstock.config.local_connection import local_connection
from penstock.config.project import LocalCluster
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.producer import Producer
from penstock.kafka.reader import read_all
from penstock.kafka.topic_spec import TopicSpec

from conftest import Cli
from support.waiting import until


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, jar_folder: Path) -> Path:
    """A stopped cluster with a topic and a record, made once; tests work on copies of it."""
    home = tmp_path_factory.mktemp("made")
    cluster = Cluster(home / "broker", jar_folder)
    cluster.up(LocalCluster(port=0))
    try:
        topics.create(Admin(cluster.connection()), "kept", TopicSpec(partitions=4))
        with Producer(cluster.connection()) as producer:
            producer.send("kept", "before down")
    finally:
        cluster.down()
    return home


@pytest.fixture
def home(tmp_path: Path, made: Path) -> Iterator[Path]:
    """A copy of that cluster, stopped in the end by process id, whatever the test did to it."""
    copy = tmp_path / "home"
    shutil.copytree(made, copy)
    yield copy
    for folder in copy.glob("broker/node-*"):
        # By its command line, as `penstock down` finds it: a start that was interrupted has noted no process id.
        process = Node(int(folder.name.removeprefix("node-")), folder).process()
        if process is not None:
            process.kill()
            process.wait(60)


def test_data_survive_down_and_kill_and_up_twice_is_fine(cli: Cli, home: Path, jar_folder: Path) -> None:
    first = cli("up", "--json", home=home)
    second = cli("up", "--json", home=home)
    assert cli("produce", "kept", home=home, stdin="before the kill\n").code == 0
    process = Cluster(home / "broker", jar_folder).node(1).process()
    assert process is not None
    process.kill()
    process.wait(60)
    killed = cli("status", "--json", home=home)
    after_kill = cli("up", home=home)
    logs = cli("logs", "--lines", 5, home=home)
    status = cli("status", "--json", home=home)

    assert (0, 0, 0) == (first.code, second.code, after_kill.code)
    assert first.json["cluster_id"] == second.json["cluster_id"]
    assert (4, False, "stopped") == (killed.code, killed.json["healthy"], killed.json["nodes"][0]["state"])
    assert sorted(cli("consume", "kept", home=home).out.splitlines()) == ["before down", "before the kill"]
    assert (0, True, "running") == (status.code, status.json["healthy"], status.json["nodes"][0]["state"])
    assert 5 == len(logs.out.splitlines())
    assert cli("down", home=home).code == 0
    assert "was not running" in cli("down", home=home).err


@pytest.mark.parametrize(
    ("options", "name"), [(["--nodes", "3"], "nodes"), (["--secure"], "secure"), (["--port", "19999"], "port")]
)
def test_other_settings_than_the_data_were_made_with_are_refused(
    cli: Cli, home: Path, options: list[str], name: str
) -> None:
    before = (home / "broker/cluster.json").read_bytes()

    said = cli("up", *options, home=home)

    assert said.code == 6
    assert f"made with `{name}: " in said.error_lines[0]
    assert before == (home / "broker/cluster.json").read_bytes()


def listen_below_the_range_for_clients(listener: socket.socket) -> int:
    """Take a port that `--port` accepts; the system hands out only higher ones by itself."""
    for port in range(20_000, 30_000):
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            continue
        listener.listen()
        return port
    raise AssertionError("no port is free")


def test_a_port_in_use_is_named_with_its_holder_and_nothing_is_made(cli: Cli, tmp_path: Path) -> None:
    with socket.socket() as holder:
        port = listen_below_the_range_for_clients(holder)
        said = cli("up", "--port", port, home=tmp_path / "home")

    assert said.code == 6
    assert f"port {port} on 127.0.0.1 is in use by" in said.error_lines[0]
    assert f"process {os.getpid()}" in said.error_lines[0]
    assert not (tmp_path / "home/broker/cluster.json").exists()


def test_a_pid_that_now_belongs_to_somebody_else_does_not_stop_the_start(cli: Cli, home: Path) -> None:
    (home / "broker/node-1/pid").write_text(str(os.getpid()))

    assert cli("status", home=home).code == 4
    assert cli("up", home=home).code == 0
    assert ["before down"] == cli("consume", "kept", home=home).out.splitlines()


def test_a_state_file_that_is_damaged_or_gone_is_not_built_upon(cli: Cli, home: Path) -> None:
    state = home / "broker/cluster.json"
    whole = state.read_text()

    state.write_text(whole[: len(whole) // 2])
    damaged = cli("up", home=home)
    state.unlink()
    gone = cli("up", home=home)

    assert (6, 6) == (damaged.code, gone.code)
    assert "is damaged" in damaged.error_lines[0]
    assert "is gone" in gone.error_lines[0]
    assert "The data are untouched" in gone.error_lines[0]


def test_a_format_that_was_interrupted_is_finished(cli: Cli, home: Path) -> None:
    node = home / "broker/node-1"
    # As a crash in the middle of the first format leaves it: a torn file, and no marker.
    shutil.rmtree(node / "data")
    (node / "formatted").unlink()
    (node / "data").mkdir()
    (node / "data/meta.properties").write_text("version=1\nclust")

    assert cli("up", home=home).code == 0


def test_a_node_that_cannot_start_says_why_and_keeps_the_data(cli: Cli, home: Path) -> None:
    meta = home / "broker/node-1/data/meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=7"))

    refused = cli("up", home=home)

    assert refused.code == 7
    assert "node 1 stopped unexpectedly" in refused.error_lines[0]
    assert "Its data are kept" in refused.error_lines[0]


def test_a_node_joins_takes_its_share_and_leaves_and_no_record_is_lost(cli: Cli, home: Path) -> None:
    assert cli("up", home=home).code == 0
    with Producer(local_connection(home / "broker")) as producer:
        producer.send_many("kept", [{"value": str(number), "key": str(number)} for number in range(5000)])

    added = cli("node", "add", "--json", home=home)
    assert (0, 2) == (added.code, added.json["id"]), added.err
    plan = cli("topic", "rebalance", home=home)
    assert "Nothing was changed" in plan.err
    moved = cli("topic", "rebalance", "--yes", home=home)
    assert moved.code == 0, moved.err
    spread = {part["leader"] for part in cli("topic", "describe", "kept", "--json", home=home).json["partitions"]}
    assert "evenly used" in cli("topic", "rebalance", "--dry-run", home=home).err
    assert cli("node", "remove", 1, "--yes", home=home).code == 6
    removed = cli("node", "remove", 2, "--yes", home=home)
    assert removed.code == 0, removed.err

    assert {1, 2} == spread
    assert 5001 == len({message.value() for message in read_all(local_connection(home / "broker"), "kept")})
    assert [1] == [node["node"] for node in cli("status", "--json", home=home).json["nodes"]]


def test_ctrl_c_in_up_says_what_goes_on_starting(home: Path, jar_folder: Path) -> None:
    command = [sys.executable, "-m", "penstock", "--home", str(home), "up"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as starting:
        until(lambda: Cluster(home / "broker", jar_folder).node(1).process() is not None)
        starting.send_signal(signal.SIGINT)
        said = starting.communicate(timeout=240)[1]

    assert 130 == starting.returncode
    assert "node 1 is still starting. Stop with: penstock down; wait for it with: penstock up" in said
