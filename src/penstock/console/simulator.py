"""Games in the background, started, scaled and stopped: the simulator of the project, as `penstock up` runs it."""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from penstock.config.complaints import in_words
from penstock.config.local_services import folder_of
from penstock.config.service_names import ServiceName
from penstock.config.services import SimulatorService
from penstock.config.settings import Settings
from penstock.errors import BadInput
from penstock.extras import require
from penstock.kafka import cluster as kafka_cluster
from penstock.kafka.admin import Admin
from penstock.services import control, status
from penstock.services.context import ServiceContext
from penstock.services.control import LocalServices
from penstock.services.simulator import Crowd, crowd_of
from penstock.services.status import State

_NAME: ServiceName = "simulator"


class Scale(BaseModel, frozen=True, extra="forbid"):
    """How much is played; what is left out is as the project file has it, or else as `penstock up` has it."""

    players: int | None = Field(None, ge=2, le=1_000, description="Bots that play.")
    think_s: float | None = Field(None, ge=0.0, le=60.0, description="Seconds that a bot thinks before it acts.")
    servers: int | None = Field(None, ge=1, le=16, description="Game servers; several share their games in Redis.")


class Simulation(BaseModel, frozen=True):
    """The games in the background."""

    state: State = Field(description="As that of every service: running, stopped and so on.")
    crowd: Crowd | None = Field(description="Who plays, as it was started last; none if it never was.")
    usual: Scale = Field(description="Who would play by the project file.")
    can_share: bool = Field(description="Whether the project file names a Redis in which several servers share games.")
    topic: str = Field(description="The topic of its events, in the project's Kafka.")
    restarts: int = Field(description="How often one of its programs died and was started again.")
    reason: str = Field(description="How the last one that died ended.")


class BackgroundGames:
    """The simulator of one project."""

    def __init__(self, settings: Settings, root: list[str], admin: Callable[[], Admin]) -> None:
        self._settings = settings
        self._root = root
        self._admin = admin

    def look(self) -> Simulation:
        """Return how it is."""
        known, found = self._project, status.load(folder_of(self._settings.home, _NAME))
        return Simulation(
            state=found.state,
            crowd=crowd_of(self._settings.home),
            usual=Scale(players=known.players, think_s=known.think_s, servers=known.servers),
            can_share=known.state is not None,
            topic=known.topic,
            restarts=found.restarts,
            reason=found.reason,
        )

    def start(self, scale: Scale) -> Simulation:
        """Start it, or restart it with another crowd; returns as soon as it has a supervisor."""
        require("lab", "the simulator")
        options = _checked({**self._project.model_dump(), **scale.model_dump(exclude_none=True)})
        kafka_cluster.cluster_id(self._admin())  # while Kafka is away there is nothing to play into
        LocalServices(ServiceContext.of(self._settings, self._root)).start(_NAME, options)
        return self.look()

    def stop(self) -> Simulation:
        """Stop it; what was played stays."""
        control.stop(self._settings.home, _NAME)
        return self.look()

    @property
    def _project(self) -> SimulatorService:
        return self._settings.project.services.simulator or SimulatorService()


def _checked(keys: dict[str, Any]) -> SimulatorService:
    try:
        return SimulatorService.model_validate(keys)
    except ValidationError as error:
        raise BadInput(in_words(error.errors(include_input=False)[0]), safe="Nothing was changed") from None
