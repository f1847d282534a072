from pathlib import Path

import pytest

from penstock.config.local_services import ServiceState
from penstock.config.services import SimulatorService
from penstock.kafka.connection import Connection
from penstock.services.context import ServiceContext
from penstock.services.simulator import Crowd, Simulator, crowd_of


@pytest.fixture
def context(tmp_path: Path) -> ServiceContext:
    return ServiceContext(tmp_path, tmp_path / "jars", Connection(bootstrap_servers="127.0.0.1:9092"), 1, secure=False)


def test_several_servers_listen_on_one_port_and_each_writes_a_truth_of_its_own(context: ServiceContext) -> None:
    settings = SimulatorService(servers=2, state="redis://127.0.0.1:6379/0", by_module=True)
    state = ServiceState(name="simulator", host="127.0.0.1", port=8765, inner_port=None, secure=False)
    first, second, players = Simulator(settings).prepare(context, state).programs

    assert ["server", "server-2", "players"] == [each.name for each in (first, second, players)]
    assert {"--share-port", "--by-module"} <= set(first.command) & set(second.command)
    assert "truth-2.jsonl" == Path(second.command[-1]).name
    assert "ws://127.0.0.1:8765" in players.command


def test_how_many_play_is_read_from_what_was_started(context: ServiceContext) -> None:
    settings = SimulatorService(players=40, think_s=0.25, servers=2, state="redis://127.0.0.1:6379/0")
    state = ServiceState(name="simulator", host="127.0.0.1", port=8765, inner_port=None, secure=False)
    before = crowd_of(context.home)
    context.folder("simulator").mkdir(parents=True)
    Simulator(settings).prepare(context, state).save(context.folder("simulator"))

    assert before is None
    assert Crowd(players=40, think_s=0.25, servers=2) == crowd_of(context.home)
