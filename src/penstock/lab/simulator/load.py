"""Games as fast as one process can: no sockets, no logging, but the same games and events as played ones."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from penstock.lab.simulator.bot import Bot
from penstock.lab.simulator.events import encode
from penstock.lab.simulator.game import Game, Standing
from penstock.lab.simulator.malformed import Spoiler
from penstock.lab.simulator.plan import PlannedGame
from penstock.lab.simulator.truth import TruthWriter

Records = list[dict[str, Any]]
"""What `Producer.send_many` takes: `{"key": ..., "value": ...}` each."""

_CHUNK = 2000


def play_out(planned: PlannedGame, *, mistakes: float) -> Game:
    """Play a game to its end."""
    game = Game(planned.game_id, len(planned.users))
    for user in planned.users:
        game.join(user)
    bots = [Bot(planned.game_id, user, mistakes=mistakes) for user in game.users]
    alive, fallen = game.alive, game.fallen
    while game.status == "playing":
        bot = bots[game.seat]
        enemy = bot.choose(alive, fallen)
        if enemy is None:
            game.pass_turn(bot.user)
        else:
            game.attack(bot.user, enemy)
    return game


def send_games(
    games: Iterable[PlannedGame],
    send: Callable[[Records], None],
    *,
    mistakes: float,
    spoiler: Spoiler | None,
    truth: TruthWriter,
    show: Callable[[int], None],
) -> tuple[Counter[str], int]:
    """Play games and send their events; return the events by message and the number of malformed records.

    The truth of a game is written after its last event was handed over.
    """
    counts: Counter[str] = Counter()
    malformed = 0
    records: Records = []
    standings: list[Standing] = []
    for done, planned in enumerate(games, start=1):
        game = play_out(planned, mistakes=mistakes)
        key = planned.game_id
        events = game.take_events()
        counts.update([kind.message for kind, _ in events])
        if spoiler is None:
            records += [{"key": key, "value": encode(kind, fields)} for kind, fields in events]
        else:
            for kind, fields in events:
                records.append({"key": key, "value": encode(kind, fields)})
                spoilt = spoiler.after(kind, fields)
                malformed += len(spoilt)
                records += [{"key": key, "value": value} for value in spoilt]
            spoiler.forget(key)
        standings += game.standings()
        if len(records) >= _CHUNK:
            send(records)
            truth.write(standings)
            records, standings = [], []
            show(done)
    send(records)
    truth.write(standings)
    return counts, malformed
