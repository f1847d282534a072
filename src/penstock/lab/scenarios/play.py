"""Letting games be played into an arena's topic: live, through sockets and the log, or straight into a producer."""

from collections.abc import Callable

from pydantic import BaseModel, Field

from penstock.kafka.producer import Producer
from penstock.lab.scenarios.arena import Arena
from penstock.lab.simulator import events
from penstock.lab.simulator.load import Records
from penstock.lab.simulator.sending import Destination, simulate_to
from penstock.lab.simulator.simulation import SimulationOptions, SimulationResult, simulate

_SLICE = 500


class Games(BaseModel, frozen=True, extra="forbid"):
    """What is played."""

    players: int = Field(description="Users who play.")
    games: int = Field(description="Games of 2 to 6 of them.")
    seed: int = Field(1, description="Decides everything about the games.")
    malformed: float = Field(0.0, description="Share of all records that are malformed.")
    think_s: float = Field(0.0, description="How long a live player thinks before acting.")


def play_fast(
    arena: Arena, games: Games, *, slice_events: int = _SLICE, between: Callable[[int], None] = lambda _sent: None
) -> SimulationResult:
    """Play as fast as one process can; `between` is called after each slice with what was handed over so far.

    Every record is acknowledged when this returns.
    """
    options = _options(arena, games, "max")
    with Producer(arena.connection) as producer:

        def send(records: Records) -> None:
            for first in range(0, len(records), slice_events):
                producer.send_many(events.TOPIC, records[first : first + slice_events])
                between(producer.sent)

        return simulate(options, send, show=lambda done, total: arena.step("playing", done, total))


def play_live(arena: Arena, games: Games, *, wanted: Callable[[], int | None] | None = None) -> SimulationResult:
    """Let bots play over sockets; the server logs what happens, and the log goes to Kafka.

    Every record is acknowledged when this returns. `wanted` is asked now and then how many players there should be.
    """
    return simulate_to(
        _options(arena, games, "live"),
        Destination(topic=events.TOPIC, connection=arena.connection),
        show=lambda done, total: arena.step("playing", done, total),
        wanted=wanted,
    )


def _options(arena: Arena, games: Games, speed: str) -> SimulationOptions:
    played = games.model_dump(exclude={"think_s"})
    bots = {"think_s": games.think_s}
    return SimulationOptions.model_validate({**played, "bots": bots, "speed": speed, "truth": arena.truth})
