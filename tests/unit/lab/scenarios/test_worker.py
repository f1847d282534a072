"""The podium's worker: what it acknowledges when, and what it writes when it is started again."""

from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from penstock.errors import BrokerUnavailable, OwnershipLost
from penstock.lab.simulator.load import play_out
from penstock.lab.simulator.plan import plan
from penstock.lab.simulator.truth import TrueStanding, read_truth
from penstock.transports import Incoming

from worker import Worker


class Queue:
    """A subscription over a list, which remembers what was acknowledged."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self._left = [Incoming(value, None, number) for number, value in enumerate(values)]
        self.acknowledged: list[int] = []
        self.failure: Exception | None = None

    def receive(self, max_messages: int, timeout_s: float) -> list[Incoming]:
        assert max_messages > 0
        assert timeout_s > 0
        given, self._left = self._left[:7], self._left[7:]
        return given

    def acknowledge(self, messages: Sequence[Incoming]) -> None:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self.acknowledged += [message.receipt for message in messages]

    def close(self) -> None:
        """Nothing is open."""


def played(count: int) -> tuple[list[list[bytes]], list[TrueStanding]]:
    """Play games; give each one's messages, and how all of them ended."""
    messages, truth = [], []
    for planned in plan(10, count, seed=5):
        game = play_out(planned, mistakes=0.02)
        messages.append([orjson.dumps({"message": kind.message, **fields}) for kind, fields in game.take_events()])
        truth += [
            TrueStanding(**{name: getattr(each, name) for name in TrueStanding.model_fields})
            for each in game.standings()
        ]
    return messages, truth


def work(queue: Queue, out: Path) -> Worker:
    with Worker(queue, out) as worker:
        while worker.step():
            pass
    return worker


def mixed(first: list[bytes], second: list[bytes]) -> list[bytes]:
    """Put one game inside of another."""
    return [*first[:3], *second, *first[3:]]


def test_every_game_is_written_as_it_was_and_every_message_acknowledged(tmp_path: Path) -> None:
    games, truth = played(12)
    values = [value for game in games for value in game]
    queue = Queue(values)

    worker = work(queue, tmp_path / "podium.jsonl")

    assert truth == read_truth(tmp_path / "podium.jsonl")
    assert list(range(len(values))) == queue.acknowledged
    assert (12, 0) == (worker.finished, worker.malformed)


def test_nothing_behind_a_game_that_goes_on_is_acknowledged(tmp_path: Path) -> None:
    (first, second), _ = played(2)
    queue = Queue([b"not an event", *mixed(first, second)[:-1]])

    worker = work(queue, tmp_path / "podium.jsonl")

    assert [0] == queue.acknowledged
    assert (1, 1) == (worker.finished, worker.malformed)
    assert {orjson.loads(second[0])["game_id"]} == {each.game_id for each in read_truth(tmp_path / "podium.jsonl")}


def test_a_worker_that_is_started_again_goes_on_without_writing_a_game_twice(tmp_path: Path) -> None:
    (first, second), truth = played(2)
    values = mixed(first, second)
    before = Queue(values[:-1])
    work(before, tmp_path / "podium.jsonl")
    after = Queue(values[len(before.acknowledged) :])

    work(after, tmp_path / "podium.jsonl")

    found = read_truth(tmp_path / "podium.jsonl")
    assert sorted(truth, key=repr) == sorted(found, key=repr)
    assert len(values) == len(before.acknowledged) + len(after.acknowledged)


@pytest.mark.parametrize("cut", [1, 20, 250])
def test_half_a_game_that_a_crash_left_in_the_file_is_written_again_whole(tmp_path: Path, cut: int) -> None:
    games, truth = played(2)
    out = tmp_path / "podium.jsonl"
    work(Queue(games[0] + games[1]), out)
    out.write_bytes(out.read_bytes()[:-cut])

    work(Queue(games[0] + games[1]), out)

    assert truth == read_truth(out)


def test_a_game_that_timed_out_is_let_go(tmp_path: Path) -> None:
    (first, _), _ = played(2)
    over = orjson.dumps(
        {"message": "Game Timed Out", "game_id": orjson.loads(first[0])["game_id"], "reason": "players"}
    )
    queue = Queue([*first[:5], over, b"{}"])

    worker = work(queue, tmp_path / "podium.jsonl")

    assert list(range(7)) == queue.acknowledged
    assert (0, 1) == (worker.finished, worker.malformed)


def test_messages_that_the_server_took_back_are_not_acknowledged_again(tmp_path: Path) -> None:
    games, truth = played(2)
    queue = Queue(games[0] + games[0] + games[1])
    queue.failure = OwnershipLost("they come again")

    work(queue, tmp_path / "podium.jsonl")

    assert truth == read_truth(tmp_path / "podium.jsonl")
    assert len(games[0] + games[0] + games[1]) - 1 == queue.acknowledged[-1]
    assert sorted(set(queue.acknowledged)) == queue.acknowledged


def test_what_could_not_be_acknowledged_during_an_outage_is_acknowledged_after_it(tmp_path: Path) -> None:
    games, truth = played(2)
    values = games[0] + games[1]
    queue = Queue(values)
    queue.failure = BrokerUnavailable("away")
    failures = 0

    with Worker(queue, tmp_path / "podium.jsonl") as worker:
        while worker.finished < 2:
            try:
                worker.step()
            except BrokerUnavailable:
                failures += 1

    assert 1 == failures
    assert truth == read_truth(tmp_path / "podium.jsonl")
    assert list(range(len(values))) == queue.acknowledged
