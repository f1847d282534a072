"""Connectors of Kafka Connect: their state, tasks and traces, and restarting them."""

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from penstock.config.local_services import folder_of, local_service
from penstock.connect import restarts
from penstock.connect.cdc import Captures, SlotStatus
from penstock.connect.client import ConnectClient, Connector, Task
from penstock.connect.restarts import Restarts
from penstock.console.actions import ActionRoute
from penstock.console.asking import NEEDS, FromConsole
from penstock.console.service import Console
from penstock.errors import NotFound
from penstock.secret import holds_secret, is_url_with_login

router = APIRouter(prefix="/connectors", tags=["connectors"], route_class=ActionRoute)
Name = Annotated[str, Path(max_length=249, description="The connector's name.")]


class ConnectorRow(Connector, frozen=True):
    """One line of the list of connectors."""

    restarts: int = Field(description="How often it was started again because it, or a task of it, had failed.")


class ConnectorSetting(BaseModel, frozen=True):
    """One setting of a connector."""

    name: str = Field(description="Its name.")
    value: str | None = Field(description="Value; none for a secret.")


class ConnectorDetail(BaseModel, frozen=True):
    """Everything about a connector."""

    connector: Connector = Field(description="How it is.")
    tasks: list[Task] = Field(description="Its tasks.")
    restarts: Restarts | None = Field(description="How often it was started again, and why; none if it never failed.")
    settings: list[ConnectorSetting] = Field(description="Its settings, by name.")
    is_capture: bool = Field(description="Whether it captures changes, as `penstock cdc add` has it: it has a slot.")


def _client(console: Console) -> ConnectClient:
    return ConnectClient(local_service(console.settings.home, "connect"))


def _restarts(console: Console) -> dict[str, Restarts]:
    return restarts.load(folder_of(console.settings.home, "connect"))


@router.get("", summary="List connectors", dependencies=NEEDS["viewer"])
def list_connectors(console: FromConsole) -> list[ConnectorRow]:
    """Return all connectors by name, with the errors of those that failed, and how often they were restarted."""
    counts = {name: each.count for name, each in _restarts(console).items()}
    return [ConnectorRow(**vars(each), restarts=counts.get(each.name, 0)) for each in _client(console).connectors()]


@router.get("/{name}", summary="One connector", dependencies=NEEDS["viewer"])
def get_connector(console: FromConsole, name: Name) -> ConnectorDetail:
    """Return state, tasks with their traces, and settings; secrets stay with the worker."""
    client = _client(console)
    return ConnectorDetail(
        connector=client.connector(name),
        tasks=client.tasks(name),
        restarts=_restarts(console).get(name),
        settings=[
            ConnectorSetting(name=key, value=None if holds_secret(key) or is_url_with_login(value) else value)
            for key, value in sorted(client.config(name).items())
        ],
        is_capture=name in Captures(console.settings.home, client).names(),
    )


@router.get("/{name}/slot", summary="The slot of a capture", dependencies=NEEDS["viewer"])
def get_slot(console: FromConsole, name: Name) -> SlotStatus:
    """Return the state of a capture's replication slot, and how much log the database keeps for it."""
    captures = Captures(console.settings.home, _client(console))
    if name not in captures.names():
        raise NotFound(f"'{name}' is not a capture, and has no slot", fix="List captures with: penstock cdc status")
    return console.slots.look(captures.load(name))


@router.post("/{name}/restart", summary="Restart a connector", dependencies=NEEDS["operator"])
def restart_connector(console: FromConsole, name: Name) -> Connector:
    """Start a connector and its tasks again."""
    client = _client(console)
    client.restart(name)
    return client.connector(name)


@router.post("/{name}/tasks/{task}/restart", summary="Restart a task", dependencies=NEEDS["operator"])
def restart_task(
    console: FromConsole, name: Name, task: Annotated[int, Path(ge=0, description="The task's number.")]
) -> Connector:
    """Start one task again."""
    client = _client(console)
    client.restart_task(name, task)
    return client.connector(name)


@router.post("/{name}/pause", summary="Pause a connector", dependencies=NEEDS["operator"])
def pause_connector(console: FromConsole, name: Name) -> Connector:
    """Pause its tasks; they keep what they hold."""
    client = _client(console)
    client.pause(name)
    return client.connector(name)


@router.post("/{name}/resume", summary="Resume a connector", dependencies=NEEDS["operator"])
def resume_connector(console: FromConsole, name: Name) -> Connector:
    """Resume it."""
    client = _client(console)
    client.resume(name)
    return client.connector(name)
