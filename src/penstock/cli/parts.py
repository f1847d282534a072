"""Every part of a project, as `penstock status` shows them."""

from pathlib import Path
from typing import Any

from penstock.cli.session import Session
from penstock.config.service_names import SERVICE_NAMES
from penstock.errors import PenstockError

Row = dict[str, Any]
WATCHED = ["part", "kind", "state", "where", "restarts", "detail"]
_FINE = {"running", "finished", "RUNNING", "PAUSED"}


def is_fine(row: Row) -> bool:
    """Return whether a part is as it should be."""
    return row["state"] in _FINE


def nodes(current: Session) -> list[Row]:
    """Return a row for each node of the local cluster; none if there is no cluster."""
    if current.settings.external is not None:
        return []
    from penstock.broker import local_nodes

    return [each.model_dump() for each in local_nodes.local_nodes(current.cluster())]


def services(current: Session) -> list[Row]:
    """Return a row for each service that is meant to run: those of the project file, and those that were started."""
    from penstock.config import local_services
    from penstock.services import status
    from penstock.services.asking import answers

    home, found = current.settings.home, []
    for name in SERVICE_NAMES:
        known, folder = local_services.load(home, name), local_services.folder_of(home, name)
        last = status.load(folder)
        if name not in current.settings.project.services.named() and (known is None or last.state == "stopped"):
            continue
        state = last.state
        if known is not None and state == "running" and not answers(known.address(home)):
            state = "starting"
        found.append(
            {
                "service": name,
                "state": state,
                "url": known.address(home).url if known else None,
                "pid": next(iter(last.pids.values()), None),
                "restarts": last.restarts,
                "reason": (_failing(folder) if state == "running" else "") or last.reason or None,
            }
        )
    return found


def _failing(folder: Path) -> str:
    """Return which connectors have failed and wait to be restarted; empty if none has, or for another service."""
    from penstock.connect import restarts

    failing = [name for name, each in restarts.load(folder).items() if each.again_at is not None]
    listed = ", ".join(f"'{name}'" for name in failing)
    return f"failed: {listed}. See: penstock connect list" if failing else ""


def connectors(current: Session) -> list[Row]:
    """Return a row for each connector of the project file."""
    from penstock.system.connector_part import ConnectorPart

    found = []
    for name in current.settings.project.connectors:
        row: Row = {"connector": name, "state": "unknown", "tasks": None, "reason": None}
        try:
            seen = ConnectorPart(name, current.settings.home).look()
            row |= {"state": seen.state, "tasks": seen.tasks, "reason": seen.trace.partition("\n")[0] or None}
        except PenstockError as error:
            row["reason"] = error.what
        found.append(row)
    return found


def pipelines(current: Session) -> list[Row]:
    """Return a row for each pipeline that is meant to run: those of the project file, and those that run."""
    from penstock.operate import restarts, status
    from penstock.operate.known_pipelines import paths_of
    from penstock.system import record

    settings = current.settings
    meant = {*settings.project.pipelines, *record.load(settings.home).parts}
    seen = {each.pipeline: each for each in status.load_all(settings.home)}
    names = [*settings.project.pipelines, *(name for name in seen if name not in settings.project.pipelines)]
    found = []
    for name in names:
        last = seen.get(name)
        if name not in meant and (last is None or last.has_ended or last.state == "crashed"):
            continue
        again = restarts.load(paths_of(settings, name).folder)
        runs = last is not None and not last.has_ended
        found.append(
            {
                "pipeline": name,
                "state": last.state if last else "stopped",
                "lag": last.lag if last and runs else None,
                "events": last.events if last else 0,
                "events_per_s": last.events_per_s if last and runs else None,
                "dead": last.dead if last else 0,
                "pid": last.pid if last and runs else None,
                "restarts": again.count,
                "reason": (last.reason if last else "") or again.reason or None,
            }
        )
    return found


def watched(current: Session) -> list[list[Any]]:
    """Return every part in one shape."""
    rows = [
        ["node " + str(row["node"]), "kafka", row["state"], f"port {row['port']}", None, f"{row['memory_mb'] or 0} MB"]
        for row in nodes(current)
    ]
    rows += [
        [row["service"], "service", row["state"], row["url"], row["restarts"], row["reason"]]
        for row in services(current)
    ]
    rows += [
        [row["connector"], "connector", row["state"], row["tasks"], None, row["reason"]] for row in connectors(current)
    ]
    for row in pipelines(current):
        far = f"lag {row['lag'] or 0:,}, {row['events']:,} events, {row['dead']:,} dead"
        detail = f"{far}; {row['reason']}" if row["reason"] else far
        rows.append([row["pipeline"], "pipeline", row["state"], None, row["restarts"], detail])
    return rows
