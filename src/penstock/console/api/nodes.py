"""Nodes: who leads and who lacks what, disks, settings, logs; starting and stopping those of a local cluster."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field

from penstock.broker.local_nodes import local_nodes
from penstock.console.actions import ActionRoute
from penstock.console.asking import NEEDS, FromConsole, FromKafka
from penstock.console.nodes import Nodes, nodes_of
from penstock.console.service import Console
from penstock.driver.log_files import last_lines
from penstock.errors import NotFound
from penstock.kafka import cluster

router = APIRouter(prefix="/nodes", tags=["nodes"], route_class=ActionRoute)
NodeId = Annotated[int, Path(ge=0, le=2**31 - 1, description="The node's id.")]


class NodeSetting(BaseModel, frozen=True):
    """One setting of a node."""

    name: str = Field(description="Kafka's name.")
    value: str | None = Field(description="Value; none for a secret.")
    is_own: bool = Field(description="Whether it differs from Kafka's default.")


class NodeLog(BaseModel, frozen=True):
    """The end of a node's log."""

    lines: list[str] = Field(description="Its last lines.")


class NodeState(BaseModel, frozen=True):
    """What became of a node."""

    node: int = Field(description="Node id.")
    state: str = Field(description="running or stopped.")


@router.get("", summary="List nodes", dependencies=NEEDS["viewer"])
def list_nodes(console: FromConsole, kafka: FromKafka) -> Nodes:
    """Return every node that is up, and those of a local cluster also while they are down."""
    is_here = kafka.is_own and console.settings.external is None
    return nodes_of(console.cluster() if is_here else None, kafka.admin)


@router.get("/{node}/settings", summary="Settings of a node", dependencies=NEEDS["viewer"])
def get_settings(kafka: FromKafka, node: NodeId) -> list[NodeSetting]:
    """Return every setting by name; secrets stay with the node."""
    found = cluster.node_config(kafka.admin(), node)
    return [NodeSetting(name=name, value=value, is_own=is_own) for name, (value, is_own) in found.items()]


@router.get("/{node}/log", summary="The end of a node's log", dependencies=NEEDS["viewer"])
def get_log(
    console: FromConsole,
    kafka: FromKafka,
    node: NodeId,
    lines: Annotated[int, Query(ge=1, le=1_000, description="How many.")] = 100,
) -> NodeLog:
    """Return the last lines of a node of the local cluster."""
    kafka.require_own()
    _require_known(console, node)
    log = console.cluster().node(node).log
    return NodeLog(lines=last_lines(log, lines) if log.is_file() else [])


@router.post("", summary="Add a node", status_code=HTTPStatus.CREATED, dependencies=NEEDS["admin"])
def add_node(console: FromConsole, kafka: FromKafka) -> NodeState:
    """Add a broker to the local cluster; it holds nothing until partitions are moved to it."""
    kafka.require_own()
    return NodeState(node=console.cluster().add_node().id, state="running")


@router.post("/{node}/restart", summary="Restart a node", dependencies=NEEDS["admin"])
def restart_node(console: FromConsole, kafka: FromKafka, node: NodeId) -> NodeState:
    """Stop a node of the local cluster if it runs, and start it; done when it takes and gives back a record."""
    kafka.require_own()
    console.cluster().restart(node)
    return NodeState(node=node, state="running")


@router.post("/{node}/stop", summary="Stop a node", dependencies=NEEDS["admin"])
def stop_node(console: FromConsole, kafka: FromKafka, node: NodeId) -> NodeState:
    """Stop a node of the local cluster; its data stay."""
    kafka.require_own()
    console.cluster().stop_node(node)
    return NodeState(node=node, state="stopped")


def _require_known(console: Console, node: int) -> None:
    if node not in {each.node for each in local_nodes(console.cluster())}:
        raise NotFound(f"there is no node {node} of the local cluster")
