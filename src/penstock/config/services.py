"""The services around the cluster, as the project file names them."""

import re
from pathlib import Path
from typing import Any, ClassVar, Literal, Self
from urllib.parse import parse_qs

from pydantic import BaseModel, Field, field_validator, model_validator

from penstock.config.service_names import SERVICE_NAMES, ServiceName
from penstock.kafka.topic_spec import CONNECT_GROUP
from penstock.loopback import is_loopback
from penstock.quantities import SizeBytes
from penstock.secret import Secret

_MB = 10**6
_SMALLEST_HEAP_BYTES = 64 * _MB
_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")
_NAMED_SECRET = re.compile(r"(env|file):.")
_DATABASE = re.compile(r"postgresql://[^@/\s]+/[^@\s]+")


class ServiceModel(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """What every service has: where it listens."""

    host: str = Field(
        "127.0.0.1",
        pattern=r"^[A-Za-z0-9.-]+$",
        description="Name or IPv4 address to listen on; any address but the loopback requires a secure cluster.",
    )
    port: int | None = Field(None, description="Port to listen on.")
    has_login: ClassVar[bool] = True
    """Whether it speaks TLS and asks for a login on a secure cluster."""
    always_asks: ClassVar[bool] = False
    """Whether it asks for a login on any cluster."""
    acts_as_user: ClassVar[bool] = False
    """Whether it acts in Kafka as the user who started it, so that it asks for a login wherever Kafka does."""
    acts_elsewhere: ClassVar[bool] = False
    """Whether it also does that in further clusters and the registry."""
    usual_port: ClassVar[int | None] = None
    """The port that it takes if none is named and this one is free; otherwise a free one."""

    @property
    def is_local(self) -> bool:
        """Return whether only this machine reaches it."""
        return is_loopback(self.host)


class OwnService(ServiceModel):
    """A command of Penstock's own that `up` runs, for this machine alone; started by hand, it can be for others."""

    host: str = Field(
        "127.0.0.1",
        pattern=r"^[A-Za-z0-9.-]+$",
        description="Name or address of this machine's loopback to listen on; for others, start it by its own command.",
    )

    @field_validator("host")
    @classmethod
    def _is_for_this_machine(cls, value: str) -> str:
        if not is_loopback(value):
            raise ValueError("`up` starts it for this machine alone; for others, start it by its own command")
        return value


class RegistryDatabase(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """A PostgreSQL that stores the schemas, instead of a file in the home folder."""

    url: str = Field(description="postgresql://HOST:PORT/DATABASE, without user and password.")
    username: str = Field(min_length=1, description="User of the database.")
    password: Secret = Field(description="env:NAME or file:PATH of the password.")

    @field_validator("url")
    @classmethod
    def _names_a_database_alone(cls, value: str) -> str:
        if not _DATABASE.fullmatch(value):
            raise ValueError("write postgresql://HOST:PORT/DATABASE; user and password have keys of their own")
        return value


class RegistryService(ServiceModel):
    """A schema registry on this machine: Apicurio Registry behind Confluent's API."""

    port: int = Field(8081, ge=0, le=65_535, description="Port that clients use; 0 picks a free one.")
    heap: SizeBytes = Field(256 * _MB, ge=_SMALLEST_HEAP_BYTES, description="Java heap.")
    database: RegistryDatabase | None = Field(
        None, description="PostgreSQL that keeps the schemas; a file in the home folder if left out."
    )


class ConnectService(ServiceModel):
    """A distributed worker of Kafka Connect on this machine."""

    always_asks: ClassVar[bool] = True  # whoever may make connectors has it read and write files
    port: int = Field(8083, ge=0, le=65_535, description="Port of its REST interface; 0 picks a free one.")
    heap: SizeBytes = Field(512 * _MB, ge=_SMALLEST_HEAP_BYTES, description="Java heap.")
    group: str = Field(
        CONNECT_GROUP,
        pattern=r"^[A-Za-z0-9._-]+$",
        description="Its consumer group; its topics are called GROUP-configs, GROUP-offsets and GROUP-status.",
    )
    plugins: tuple[str, ...] = Field((), description="Connectors from Maven, each as group:artifact:version.")

    @field_validator("plugins")
    @classmethod
    def _are_coordinates(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if not _COORDINATES.fullmatch(each):
                raise ValueError(f"'{each}' is not group:artifact:version")
        return value


class GatewayService(OwnService):
    """Takes events over HTTP, as `penstock gateway` does."""

    acts_as_user: ClassVar[bool] = True
    port: int | None = Field(8002, ge=0, le=65_535, description="Port to listen on; 0 picks a free one.")
    topic: str = Field("input.runs", description="Topic of OpenLineage events; made if Kafka has none.")


class LineageService(OwnService):
    """The lineage store: the pipeline that fills it from Kafka, and the service that answers questions about it."""

    port: int | None = Field(8000, ge=0, le=65_535, description="Port of its REST interface; 0 picks a free one.")
    topics: tuple[str, ...] = Field(
        ("input.runs",), min_length=1, description="Topics of OpenLineage events; made if Kafka has none."
    )


class ConsoleService(OwnService):
    """The console, as `penstock console` serves it."""

    acts_as_user: ClassVar[bool] = True
    acts_elsewhere: ClassVar[bool] = True
    port: int | None = Field(
        None, ge=0, le=65_535, description="Port to listen on; if left out, 8080 or, where that is taken, a free one."
    )
    role: Literal["viewer", "operator", "admin"] = Field("admin", description="What people on this machine may do.")
    usual_port: ClassVar[int | None] = 8080


class SimulatorService(OwnService):
    """Endless superhero combat: a game server, and bots that play on it."""

    has_login: ClassVar[bool] = False
    port: int | None = Field(None, ge=0, le=65_535, description="Port of the game server; a free one if left out.")
    players: int = Field(12, ge=2, le=1_000, description="Bots that play.")
    think_s: float = Field(0.5, ge=0.0, le=60.0, description="Seconds that a bot thinks before it acts.")
    topic: str = Field("superhero.combat", description="Topic of the events; made if Kafka has none.")
    by_module: bool = Field(default=False, description="A topic for each module: TOPIC.lobby and TOPIC.game.")
    servers: int = Field(1, ge=1, le=16, description="Game servers behind the one port; several take `state`.")
    state: str | None = Field(
        None,
        pattern=r"^redis://",
        description="redis://HOST:PORT/0 of yours, where servers share their games; in memory if left out.",
    )

    @field_validator("state")
    @classmethod
    def _names_its_password(cls, value: str | None) -> str | None:
        """Refuse a password: the address is on a server's command line, which everybody can read."""
        place, _, options = (value or "").removeprefix("redis://").partition("?")
        given = parse_qs(options).get("password", [])
        if ":" in place.rpartition("@")[0] or "@" in options or not all(map(_NAMED_SECRET.match, given)):
            raise ValueError("a password is not written here: name it as ?password=env:NAME or file:PATH")
        return value

    @model_validator(mode="after")
    def _several_share_their_games(self) -> Self:
        if self.servers > 1 and self.state is None:
            raise ValueError("several servers share their games in Redis: name it with `state: redis://HOST:PORT/0`")
        return self


AnyService = RegistryService | ConnectService | GatewayService | LineageService | ConsoleService | SimulatorService


class Services(BaseModel, frozen=True, extra="forbid"):
    """What `penstock up` starts beside Kafka; a key alone is a service with every default."""

    registry: RegistryService | None = Field(None, description="A schema registry.")
    connect: ConnectService | None = Field(None, description="Kafka Connect.")
    gateway: GatewayService | None = Field(None, description="Events over HTTP into Kafka.")
    lineage: LineageService | None = Field(None, description="The lineage store, filled and asked.")
    console: ConsoleService | None = Field(None, description="The console, in a browser.")
    simulator: SimulatorService | None = Field(None, description="Games that make events, in the background.")

    @model_validator(mode="before")
    @classmethod
    def _keys_alone_are_enough(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: {} if settings is None else settings for name, settings in value.items()}
        return {} if value is None else value

    def named(self) -> dict[ServiceName, AnyService]:
        """Return what is to run, in the order in which it is started."""
        found = {name: getattr(self, name) for name in SERVICE_NAMES}
        return {name: each for name, each in found.items() if each is not None}


MODELS: dict[ServiceName, type[AnyService]] = {
    "registry": RegistryService,
    "connect": ConnectService,
    "gateway": GatewayService,
    "lineage": LineageService,
    "console": ConsoleService,
    "simulator": SimulatorService,
}


def services_folder(home: Path) -> Path:
    """Return the folder that holds one folder for each service."""
    return home / "services"
