"""The nodes of a local cluster as their processes and folders show them, whether or not they answer."""

import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from penstock.broker.cluster import Cluster

_BLOCK_BYTES = 512
"""What `st_blocks` counts in, whatever the file system does."""
_PARTITION = re.compile(r"(.+)-\d+")


class LocalNode(BaseModel, frozen=True):
    """One node of the local cluster."""

    node: int = Field(description="Node id.")
    state: Literal["running", "stopped"] = Field(description="running or stopped.")
    role: Literal["broker and controller", "broker"] = Field(description="Whether it has a vote, too.")
    port: int = Field(description="Port that clients use.")
    pid: int | None = Field(description="Process id; none while it is stopped.")
    memory_mb: int | None = Field(description="Memory that it has, in megabytes.")
    log: str = Field(description="Where its log is.")


class Disk(BaseModel, frozen=True):
    """Disk space of a node's data."""

    data_bytes: int = Field(description="Bytes of its data.")
    free_bytes: int = Field(description="Bytes that are free on its disk.")
    total_bytes: int = Field(description="Bytes that its disk has.")


def local_nodes(cluster: Cluster) -> list[LocalNode]:
    """Return the nodes of the local cluster; none if there is no cluster."""
    known = cluster.state()
    found = []
    for node in known.nodes if known else ():
        process = cluster.node(node.id).process()
        found.append(
            LocalNode(
                node=node.id,
                state="running" if process else "stopped",
                role="broker and controller" if node.controller else "broker",
                port=node.client_port,
                pid=process.pid if process else None,
                memory_mb=process.memory_info().rss // 10**6 if process else None,
                log=str(cluster.node(node.id).log),
            )
        )
    return found


def disk_of(cluster: Cluster, node_id: int) -> Disk | None:
    """Return the disk space of a node's data; None if it has none yet."""
    data = cluster.node(node_id).data
    if not data.is_dir():
        return None
    usage = shutil.disk_usage(data)
    return Disk(data_bytes=_bytes_in(data), free_bytes=usage.free, total_bytes=usage.total)


def topic_bytes(cluster: Cluster) -> dict[str, int]:
    """Return the bytes that all replicas of each topic take on this machine."""
    known = cluster.state()
    found: dict[str, int] = {}
    for node in known.nodes if known else ():
        for folder in cluster.node(node.id).data.glob("*-*"):
            if partition := _PARTITION.fullmatch(folder.name):
                found[partition[1]] = found.get(partition[1], 0) + _bytes_in(folder)
    return found


def _bytes_in(folder: Path) -> int:
    """Count the blocks on disk: Kafka creates index files at their maximum size, with holes in them."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # a segment that was just deleted
            total += path.lstat().st_blocks * _BLOCK_BYTES
    return total
