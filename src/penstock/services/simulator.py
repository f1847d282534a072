"""The simulator in the background: a game server whose events go to Kafka, and bots that play without an end."""

import time
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field

from penstock.config.local_services import ServiceAddress, ServiceState, folder_of
from penstock.config.services import SimulatorService
from penstock.errors import BrokerUnavailable, NotFound
from penstock.extras import require
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.positions import LATEST, Position, resolve
from penstock.services import launch
from penstock.services.context import ServiceContext
from penstock.services.launch import Launch
from penstock.services.own_program import own_program

_JUST_NOW_MS = 30_000
_PLAYERS, _SERVER = "players", "server"
_COUNT, _THINK = "--count", "--think-s"
_SHARED = ("--share-port",)
_BY_MODULE = ("--by-module",)
_BLOWS = "game"
"""The module whose events come all the time."""


class Crowd(BaseModel, frozen=True):
    """How many play, as the simulator was started last."""

    players: int = Field(description="Bots that play.")
    think_s: float = Field(description="Seconds that a bot thinks before it acts.")
    servers: int = Field(description="Game servers behind the one port.")


def crowd_of(home: Path) -> Crowd | None:
    """Read from the commands of its programs how many play; None if it was never started."""
    found = launch.load(folder_of(home, "simulator"))
    if found is None:
        return None
    (crowd,) = (each.command for each in found.programs if each.name == _PLAYERS)
    players, think_s = (crowd[crowd.index(option) + 1] for option in (_COUNT, _THINK))
    servers = sum(each.name.startswith(_SERVER) for each in found.programs)
    return Crowd(players=int(players), think_s=float(think_s), servers=servers)


@dataclass(frozen=True)
class Simulator:
    """Games with the settings of the project file."""

    settings: SimulatorService

    def has_front(self, *, secure: bool) -> bool:  # noqa: ARG002 - as the contract has it
        """Return False: clients connect to it directly."""
        return False

    def prepare(self, context: ServiceContext, state: ServiceState) -> Launch:
        """Return the game servers and their players."""
        require("lab", "the simulator")
        place, settings = ("--host", state.host, "--port", str(state.port)), self.settings
        crowd = (_COUNT, str(settings.players), _THINK, str(settings.think_s), "--forever")
        shared = ("--state", settings.state, *_SHARED[: settings.servers > 1]) if settings.state else ()
        servers = []
        for number in range(settings.servers):
            name = f"{_SERVER}-{number + 1}" if number else _SERVER
            # Each has a file of its own: a game is in that of the server which saw it end.
            truth = str(context.home / "superhero" / f"truth{'-' + str(number + 1) if number else ''}.jsonl")
            options = (*place, *shared, *_BY_MODULE[: settings.by_module], "--topic", settings.topic, "--truth", truth)
            servers.append(own_program(context, name, "sim", "serve", *options))
        players = own_program(
            context, _PLAYERS, "sim", "players", "--server", f"ws://{state.host}:{state.port}", *crowd
        )
        return Launch(programs=(*servers, players))

    def probe(self, context: ServiceContext, _address: ServiceAddress) -> None:
        """Look for an event of a game that is being played."""
        settings, admin = self.settings, Admin(context.connection)
        topic = f"{settings.topic}.{_BLOWS}" if settings.by_module else settings.topic
        since = Position("timestamp", int(time.time() * 1000) - _JUST_NOW_MS)
        try:
            partitions = [(topic, number) for number in topics.identify(admin, [topic])[topic][1]]
            starts, ends = resolve(admin, since, partitions), resolve(admin, LATEST, partitions)
        except NotFound:
            starts, ends = {}, {}
        if not any(starts[each] < ends[each] for each in starts):
            raise BrokerUnavailable(f"no game has sent an event to '{topic}' yet")
