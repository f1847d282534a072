"""A whole simulation with one call: games, events, malformed records, the truth."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from penstock.lab.simulator import events, load
from penstock.lab.simulator.load import Records
from penstock.lab.simulator.malformed import Spoiler
from penstock.lab.simulator.plan import PlannedGame, plan
from penstock.lab.simulator.play import BotOptions, Scale, Show, play_here
from penstock.lab.simulator.truth import TruthWriter

Send = Callable[[Records], None]


class SimulationOptions(BaseModel, frozen=True, extra="forbid"):
    """What is played. The same players, games, seed and mistakes are the same games at both speeds."""

    players: int = Field(10, ge=2, le=100_000, description="Users who play.")
    games: int = Field(20, ge=1, description="Games of 2 to 6 of them.")
    seed: int = Field(1, description="Decides ids, seats, heroes, blows and malformed records.")
    speed: Literal["live", "max"] = Field(
        "live", description="live: bots over sockets, events by logging; max: neither, as fast as one process can."
    )
    malformed: float = Field(0.0, ge=0.0, le=0.5, description="Share of all records that are malformed.")
    bots: BotOptions = Field(default_factory=BotOptions, description="How bots play.")
    truth: Path = Field(description="File for the final standings; what it held before is gone.")


class SimulationResult(BaseModel, frozen=True):
    """What was played and sent."""

    games: int = Field(description="Games that ended.")
    players: int = Field(description="Users who could play.")
    seed: int = Field(description="The seed.")
    speed: Literal["live", "max"] = Field(description="The speed.")
    events: int = Field(description="Events, without the malformed records.")
    malformed: int = Field(description="Malformed records among them.")
    by_message: dict[str, int] = Field(description="Events by message.")
    truth: Path = Field(description="File with the final standings.")
    seconds: float = Field(description="How long it took, until everything was handed over.")

    @property
    def records(self) -> int:
        """Everything that was sent."""
        return self.events + self.malformed


def simulate(
    options: SimulationOptions,
    send: Send,
    *,
    show: Show = lambda _done, _total: None,
    wanted: Callable[[], int | None] | None = None,
) -> SimulationResult:
    """Play all games and write the truth.

    At speed `max` every record goes to `send`, in batches for `Producer.send_many`. At speed `live` events are logged,
    so attach a handler to `penstock.lab.simulator`, and `send` gets the malformed records only, in this thread. There
    `wanted` is asked now and then how many players there should be; newcomers bring their share of games.
    """
    began = time.monotonic()
    spoiler = Spoiler(options.malformed) if options.malformed else None
    with TruthWriter(options.truth, fresh=True) as truth:
        if options.speed == "max":
            counts, malformed = load.send_games(
                plan(options.players, options.games, options.seed),
                send,
                mistakes=options.bots.mistakes,
                spoiler=spoiler,
                truth=truth,
                show=lambda done: show(done, options.games),
            )
        else:
            counts, malformed = _live(options, send, spoiler, truth, show, wanted)
    return SimulationResult(
        games=counts[events.MATCH_ENDED.message],
        players=options.players,
        seed=options.seed,
        speed=options.speed,
        events=counts.total(),
        malformed=malformed,
        by_message=dict(counts),
        truth=options.truth,
        seconds=time.monotonic() - began,
    )


def _live(
    options: SimulationOptions,
    send: Send,
    spoiler: Spoiler | None,
    truth: TruthWriter,
    show: Show,
    wanted: Callable[[], int | None] | None,
) -> tuple[Counter[str], int]:
    counts: Counter[str] = Counter()
    malformed = 0

    def publish(kind: events.EventKind, fields: events.Fields) -> None:
        nonlocal malformed
        events.log(kind, fields)
        counts[kind.message] += 1
        if spoiler is not None and (spoilt := spoiler.after(kind, fields)):
            malformed += len(spoilt)
            send([{"key": fields[events.KEY], "value": value} for value in spoilt])

    def more(before: int, now: int, times: int) -> list[PlannedGame]:
        share = max(1, round(options.games * (now - before) / options.players))
        return list(plan(now, share, options.seed + times))

    games = list(plan(options.players, options.games, options.seed))
    scale = None if wanted is None else Scale(wanted, more, options.players)
    asyncio.run(
        play_here(
            games,
            options.bots,
            publish=publish,
            finished=lambda game: truth.write(game.standings()),
            show=show,
            scale=scale,
        )
    )
    return counts, malformed
