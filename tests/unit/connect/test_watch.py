from pathlib import Path

import pytest

from penstock.config.local_services import ServiceAddress
from penstock.connect import restarts, snapshots
from penstock.connect.cdc import Capture, Captures
from penstock.connect.client import ConnectClient, Connector
from penstock.connect.restarts import Restarts
from penstock.connect.watch import SnapshotWatch, Watch
from penstock.errors import NotFound
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.sinks.postgres_server import Server

NOWHERE = Admin(Connection(bootstrap_servers="127.0.0.1:1"))
TRACE = "org.apache.kafka.connect.errors.ConnectException: outer\nCaused by: java.io.IOException: disk full"


class Worker(ConnectClient):
    """A worker with one connector, whose state a test sets."""

    def __init__(self) -> None:
        super().__init__(ServiceAddress(url="http://127.0.0.1:1"))
        self.there = [Connector(name="lines", type="source", state="RUNNING", tasks="1/1")]
        self.restarted: list[str] = []

    def fail(self, state: str = "RUNNING") -> None:
        self.there = [Connector(name="lines", type="source", state=state, tasks="0/1", trace=TRACE)]

    def connectors(self) -> list[Connector]:
        return self.there

    def restart(self, name: str, *, only_failed: bool = False) -> None:
        assert only_failed
        self.restarted.append(name)


def test_what_has_failed_is_started_again_after_pauses_that_grow_and_restart_snapshot_once_it_runs_well(
    tmp_path: Path,
) -> None:
    worker = Worker()
    watch, pauses = Watch(worker, tmp_path), list[float]()
    now = 1000.0
    worker.fail()
    for ran_s in (0.5, 0.5, 0.5, 100.0):
        watch.look(now)
        again_at = restarts.load(tmp_path)["lines"].again_at
        assert again_at is not None
        pauses.append(again_at - now)
        watch.look(again_at - 0.1)
        before = len(worker.restarted)
        watch.look(again_at)
        assert before + 1 == len(worker.restarted)
        now = again_at + ran_s

    watch.look(now)
    told = restarts.load(tmp_path)["lines"]
    assert [1.0, 2.0, 4.0, 8.0] == pauses
    assert Restarts(count=4, reason="java.io.IOException: disk full", failed_at=now, again_at=now + 1.0) == told


@pytest.mark.parametrize("state", ["PAUSED", "STOPPED"])
def test_a_connector_that_somebody_has_paused_or_stopped_is_left_alone(tmp_path: Path, state: str) -> None:
    worker = Worker()
    watch = Watch(worker, tmp_path)
    worker.fail(state)

    for now in (1000.0, 2000.0):
        watch.look(now)

    assert ([], {}) == (worker.restarted, restarts.load(tmp_path))


def test_a_watch_that_is_started_again_goes_on_counting_and_forgets_what_is_removed(tmp_path: Path) -> None:
    restarts.save(tmp_path, {"lines": Restarts(count=3, again_at=5.0), "gone": Restarts(count=1)})
    worker = Worker()
    worker.fail()

    Watch(worker, tmp_path).look(10.0)

    assert {"lines": 4} == {name: each.count for name, each in restarts.load(tmp_path).items()}


@pytest.mark.parametrize(
    ("snapshot", "state", "done"),
    [
        ("being taken", "RUNNING", []),
        ("complete", "RUNNING", []),
        ("complete", "STOPPED", []),
        ("interrupted", "RUNNING", ["restarted"]),
        ("interrupted", "FAILED", ["restarted"]),
        ("interrupted", "STOPPED", []),  # by somebody
        ("interrupted", "PAUSED", []),
        ("restarting", "STOPPED", ["restarted"]),  # by a watch that was killed then
        ("restarting", "RUNNING", ["restarted"]),
        ("not begun", "STOPPED", ["resumed"]),
        ("not begun", "RUNNING", []),
    ],
)
def test_an_interrupted_snapshot_restarts_also_if_the_watch_was_killed_while_it_did_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: str, state: str, done: list[str]
) -> None:
    seen = list[str]()
    captures = captured(tmp_path, monkeypatch, snapshot, state)
    monkeypatch.setattr(captures.client, "resume", lambda _name: seen.append("resumed"))
    monkeypatch.setattr(Captures, "restart_snapshot", lambda *_given: seen.append("restarted"))

    SnapshotWatch(captures, lambda: NOWHERE).look()

    assert done == seen


def test_one_capture_that_cannot_restart_snapshot_keeps_no_other_from_it_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = list[str]()

    def restart_snapshot(_captures: Captures, capture: Capture, _admin: Admin) -> None:
        begun.append(capture.name)
        if capture.name == "broken":
            raise NotFound("the database is not there")

    captures = captured(tmp_path, monkeypatch, "interrupted", "RUNNING", "broken", "shop")
    monkeypatch.setattr(Captures, "restart_snapshot", restart_snapshot)

    with pytest.raises(NotFound, match="the database is not there"):
        SnapshotWatch(captures, lambda: NOWHERE).look()

    assert ["broken", "shop"] == begun


def test_a_capture_that_is_being_removed_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captures, begun = captured(tmp_path, monkeypatch, "restarting", "STOPPED"), list[Capture]()
    monkeypatch.setattr(Captures, "restart_snapshot", lambda _captures, capture, _admin: begun.append(capture))

    with captures._alone("shop"):
        SnapshotWatch(captures, lambda: NOWHERE).look()
        seen = len(begun)
    SnapshotWatch(captures, lambda: NOWHERE).look()

    assert (0, 1) == (seen, len(begun))


def test_kafka_is_connected_to_for_captures_alone_and_not_for_each_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = list[Admin]()

    def open_admin() -> Admin:
        opened.append(NOWHERE)
        return NOWHERE

    without = SnapshotWatch(Captures(tmp_path / "none", Worker()), open_admin)
    without.look()
    of_none = len(opened)
    watch = SnapshotWatch(captured(tmp_path, monkeypatch, "complete", "RUNNING"), open_admin)
    watch.look()
    of_first = len(opened)
    watch.look()
    watch.look()

    assert (0, 2, 2) == (of_none, of_first, len(opened))


def captured(home: Path, monkeypatch: pytest.MonkeyPatch, snapshot: str, state: str, *names: str) -> Captures:
    """Have captures whose snapshots and connectors are in this state."""
    worker = Worker()
    monkeypatch.setattr(
        worker, "connector", lambda name: Connector(name=name, type="source", state=state, tasks="1/1"), raising=False
    )
    monkeypatch.setattr(snapshots, "end", lambda *_given: 5)
    monkeypatch.setattr(snapshots, "state", lambda *_given: snapshot)
    captures = Captures(home, worker)
    for name in names or ("shop",):
        captures._keep(Capture(name=name, server=Server(database="shop", user="u"), tables=["public.orders"]))
    return captures
