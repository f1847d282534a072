"""Whether this machine can run Penstock: each check is ok, or says what to do."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil
from pydantic import BaseModel, Field

from penstock.broker import ports
from penstock.broker.cluster import Cluster
from penstock.config.cluster_state import ClusterState, NodeState
from penstock.config.project import LocalCluster
from penstock.config.settings import Settings
from penstock.errors import EnvironmentNotReady, PenstockError
from penstock.jvm import jars
from penstock.jvm.java import find_java
from penstock.kafka import cluster as kafka_cluster
from penstock.kafka.admin import Admin
from penstock.private import make_missing_private
from penstock.wording import plural

_LEAST_DISK_BYTES = 2 * 10**9
_OUTSIDE_THE_HEAP = 1.5
_CLOCK_SLACK_S = 60.0


class Check(BaseModel, frozen=True):
    """One line of the report."""

    check: str = Field(description="What was looked at.")
    ok: bool = Field(description="Whether it is in order.")
    detail: str = Field(description="What was found.")
    fix: str = Field("", description="What to do, if it is not.")


def examine(settings: Settings) -> Iterator[Check]:
    """Check everything that a local cluster needs, and the cluster itself."""
    yield _guarded("java", _java)
    yield _jars(settings)
    yield _guarded("folder", lambda: _folder(settings.home))
    try:
        home = settings.home
    except PenstockError:
        return  # as the folder's line says, and nothing else can be said
    yield _disk(home)
    yield _memory(settings)
    if settings.external is None:
        yield _guarded("ports", lambda: _ports(settings))
    yield _guarded("broker", lambda: _broker(settings))
    yield _clock(home)


def fix_missing(settings: Settings, progress: jars.Progress) -> None:
    """Fetch the jars that are missing and make the folder; raise `EnvironmentNotReady` if there is no way to the jars.

    A folder that cannot be made is found by `examine`. The system is not changed: installing Java, for example, is left
    to its administrator.
    """
    with suppress(PenstockError, OSError):
        make_missing_private(settings.home)
    for jar_set in jars.USED_SETS:
        jars.ensure(jar_set, settings.jars, progress)


def _guarded(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(check=name, ok=True, detail=look())
    except PenstockError as error:
        return Check(check=name, ok=False, detail=error.what, fix=error.fix)


def _java() -> str:
    path, version = find_java()
    return f"Java {version} at {path}"


def _jars(settings: Settings) -> Check:
    wanted = [jar for jar_set in jars.USED_SETS for jar in jars.locked(jar_set)]
    wrong = [jar for jar in wanted if not jars.is_sound(jar, settings.jars)]
    if wrong:
        detail = f"{len(wrong)} of {len(wanted)} jars are missing or damaged in {settings.jars}"
        return Check(check="jars", ok=False, detail=detail, fix="Run: penstock doctor --fix")
    return Check(check="jars", ok=True, detail=f"{len(wanted)} jars verified in {settings.jars}")


def _folder(home: Path) -> str:
    """Penstock makes the folder when it first needs it, if that may be."""
    place = _existing(home)
    if not os.access(place, os.W_OK | os.X_OK):
        raise EnvironmentNotReady(f"{place} may not be written to", fix="Choose another folder with --home")
    return f"{home} may be written to" if place == home else f"{home} can be made"


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _disk(home: Path) -> Check:
    free = shutil.disk_usage(_existing(home)).free
    fix = f"Free some, or choose another folder with --home; Kafka stops when {home} is full"
    return Check(
        check="disk",
        ok=free > _LEAST_DISK_BYTES,
        detail=f"{free / 1e9:.1f} GB free for {home}",
        fix=fix if free <= _LEAST_DISK_BYTES else "",
    )


def _meant(settings: Settings) -> tuple[ClusterState, list[NodeState]]:
    """Return the local cluster that is there or would be made, and which of its nodes are still to start."""
    cluster = Cluster(settings.home / "broker", settings.jars)
    known = cluster.state()
    if known is not None:
        running = cluster.running(known)
        return known, [node for node in known.nodes if node not in running]
    requested = settings.project.cluster
    plan = cluster.planned(requested if isinstance(requested, LocalCluster) else LocalCluster())
    return plan, list(plan.nodes)


def _memory(settings: Settings) -> Check:
    known, to_start = _meant(settings)
    needed = int(len(to_start) * known.heap_bytes * _OUTSIDE_THE_HEAP)
    free = psutil.virtual_memory().available
    detail = f"{free / 1e9:.1f} GB available, {needed / 1e9:.1f} GB needed for {plural(len(to_start), 'node')} to start"
    fix = "" if free > needed else "Use fewer nodes or a smaller --heap"
    return Check(check="memory", ok=free > needed, detail=detail, fix=fix)


def _ports(settings: Settings) -> str:
    known, to_start = _meant(settings)
    wanted = [port for node in to_start for port in node.ports]
    is_there = Cluster(settings.home / "broker", settings.jars).state() is not None
    ports.require_free(known.host, wanted, **({"fix": ports.CLUSTERS_THAT_ARE_THERE} if is_there else {}))
    used = sum(len(node.ports) for node in known.nodes) - len(wanted)
    return f"{used} in use by this cluster, {len(wanted)} free for it"


def _broker(settings: Settings) -> str:
    if settings.external is None and Cluster(settings.home / "broker", settings.jars).state() is None:
        return "no local cluster yet; make one with: penstock up"
    connection = settings.connection()
    found = kafka_cluster.describe(Admin(connection, timeout_s=5.0))
    lacking = len(found.under_replicated)
    return (
        f"{plural(len(found.nodes), 'node')} up at {connection.bootstrap_servers},"
        f" {plural(lacking, 'under-replicated partition')}"
    )


def _clock(home: Path) -> Check:
    """Kafka stamps records by this clock: if it was set back, retention and look-ups by time go wrong."""
    newest = max((path.stat().st_mtime for path in home.glob("broker/node-*/logs/*.log")), default=0.0)
    behind = newest - time.time()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    if behind > _CLOCK_SLACK_S:
        return Check(
            check="clock",
            ok=False,
            detail=f"{now}, {behind:.0f} s behind the broker's own log",
            fix="Set the clock, by NTP if you can",
        )
    return Check(check="clock", ok=True, detail=now)
