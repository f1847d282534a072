"""The podium as a worker of its own, fed by any transport: the logic of `tally.py`, without Spark.

    python worker.py redis://127.0.0.1:6379/0 --topic superhero.combat --group podium --out podium.jsonl

Guarantee: at least once in, each standing once out. Events are acknowledged in the order in which they came, and only
after the standings of their game are written and synced. A worker that dies gets the rest again; games that are in the
file already are left out. One worker for a group, for all events of a game must come to the same one; with Kafka
several may share, because the game is the key. RabbitMQ hands out 2,000 events before it waits for an acknowledgement:
a game must end within as many.
"""

import argparse
import os
import signal
import sys
from collections import deque
from contextlib import closing, suppress
from itertools import takewhile
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Any, Self

import orjson

from penstock import OwnershipLost, PenstockError, Transient
from penstock.transports import Incoming, Subscription, open_transport

from tally import Tally

_BATCH = 500
_WAIT_S = 0.5
_PAUSE_S = 1.0
_OVER = "Game Timed Out"


class Worker:
    """Collects games from a subscription, and writes each to the file when it has ended."""

    def __init__(self, subscription: Subscription, out: Path) -> None:
        self._subscription = subscription
        self._games: dict[str, Tally] = {}
        self._waiting: deque[tuple[Incoming, str]] = deque()
        self._done = _whole_games(out)
        self._out = out.open("ab", buffering=0)
        self.malformed = 0
        self.finished = 0

    def step(self) -> int:
        """Deal with what has come; return how many messages that was."""
        messages = self._subscription.receive(_BATCH, _WAIT_S)
        for message in messages:
            self._waiting.append((message, self._take(message)))
        ended = [game_id for game_id, game in self._games.items() if game.is_complete]
        self._write(ended)
        self._done.update(ended)
        self.finished += len(ended)
        for game_id in ended:
            del self._games[game_id]
        self._acknowledge()
        return len(messages)

    def _take(self, message: Incoming) -> str:
        """Count an event; return its game, or nothing if the event is none."""
        event = _understood(message.value)
        if event is None:
            self.malformed += 1
            return ""
        game_id: str = event["game_id"]
        if event["message"] == _OVER:
            self._games.pop(game_id, None)
            self._done.add(game_id)
        if game_id not in self._done:
            self._games.setdefault(game_id, Tally()).add(event)
        return game_id

    def _write(self, game_ids: list[str]) -> None:
        """Put games on disk, whole: the winner's line comes last."""
        for game_id in game_ids:
            standings = reversed(self._games[game_id].standings())
            rows = [orjson.dumps({"game_id": game_id, **each}, option=orjson.OPT_APPEND_NEWLINE) for each in standings]
            self._out.write(b"".join(rows))
        if game_ids:
            os.fsync(self._out.fileno())

    def _acknowledge(self) -> None:
        """Acknowledge what came before the first event of a game that goes on: Kafka has one position, not a list."""
        settled = [message for message, _ in takewhile(lambda each: each[1] not in self._games, self._waiting)]
        if not settled:
            return
        # Those that the server has taken back come again, and are passed over then.
        with suppress(OwnershipLost):
            self._subscription.acknowledge(settled)
        for _ in settled:
            self._waiting.popleft()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _k: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self._out.close()


def _understood(value: bytes) -> dict[str, Any] | None:
    """Read an event; None for a record that is none."""
    try:
        event = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(event, dict) or not all(isinstance(event.get(name), str) for name in ("game_id", "message")):
        return None
    return event


def _whole_games(out: Path) -> set[str]:
    """Return the games in the file; what a crash left of one, after the last winner, is cut off."""
    content = out.read_bytes() if out.exists() else b""
    lines = content[: content.rfind(b"\n") + 1].splitlines(keepends=True)
    while lines and b'"rank":1,' not in lines[-1]:
        lines.pop()
    if content:
        os.truncate(out, sum(map(len, lines)))
    return {orjson.loads(line)["game_id"] for line in lines}


def main() -> int:
    """Work until so many games are written, or until Ctrl+C."""
    parser = argparse.ArgumentParser(
        description="Writes the final standings of every game that comes over a transport."
    )
    parser.add_argument("address", help="Such as redis://127.0.0.1:6379/0, amqp://127.0.0.1 or kafka://127.0.0.1:9092.")
    parser.add_argument("--topic", default="superhero.combat", help="Where the events are.")
    parser.add_argument("--group", default="podium", help="Whose position it is.")
    parser.add_argument("--out", type=Path, default=Path("podium.jsonl"), help="The file; games are added to it.")
    parser.add_argument("--games", type=int, help="End after so many games.")
    wanted = parser.parse_args()
    stopping = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    try:
        with (
            closing(open_transport(wanted.address)) as transport,
            closing(transport.subscribe(wanted.topic, wanted.group)) as subscription,
            Worker(subscription, wanted.out) as worker,
        ):
            while not stopping.is_set() and (wanted.games is None or worker.finished < wanted.games):
                try:
                    worker.step()
                except Transient as error:
                    print(f"waiting: {error}", file=sys.stderr)
                    stopping.wait(_PAUSE_S)
            print(f"{worker.finished} games, {worker.malformed} malformed records")
    except PenstockError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
