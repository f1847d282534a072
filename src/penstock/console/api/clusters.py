"""The clusters that a console shows."""

from fastapi import APIRouter
from pydantic import BaseModel, Field

from penstock.console.asking import NEEDS, FromConsole

router = APIRouter(prefix="/clusters", tags=["clusters"])


class ClusterRow(BaseModel, frozen=True):
    """One cluster."""

    cluster: str = Field(description="Its name in the project file; empty for the project's own.")
    bootstrap_servers: str = Field(description="Where it is.")


@router.get("", summary="List clusters", dependencies=NEEDS["viewer"])
def list_clusters(console: FromConsole) -> list[ClusterRow]:
    """Return the project's own cluster, then those that its file names further, by name. None of them is contacted."""
    return [
        ClusterRow(cluster=each.name, bootstrap_servers=each.connection().bootstrap_servers)
        for each in (console.own, *(console.clusters[name] for name in sorted(console.clusters)))
    ]
