"""How the oracle of lineage reads single parts of an event; it shares no code with the package."""

import datetime
import json
import re
import uuid
from typing import Any

WRITES = {
    "APPEND": 1,
    "CREATE": 2,
    "ALTER": 4,
    "RENAME": 8,
    "OVERWRITE": 16,
    "DROP": 32,
    "TRUNCATE": 64,
    "DELETE": 128,
    "UPDATE": 256,
    "MERGE": 512,
}
SQL = (
    ("INSERT OVERWRITE", "OVERWRITE"),
    ("INSERT INTO", "APPEND"),
    ("MERGE INTO", "MERGE"),
    ("DELETE FROM", "DELETE"),
    ("UPDATE", "UPDATE"),
    ("TRUNCATE", "TRUNCATE"),
    ("CREATE", "CREATE"),
    ("DROP", "DROP"),
)
USES = {
    "IDENTITY": 2,
    "TRANSFORMATION": 4,
    "AGGREGATION": 16,
    "FILTER": 64,
    "JOIN": 128,
    "GROUP_BY": 256,
    "SORT": 512,
    "WINDOW": 1024,
    "CONDITIONAL": 2048,
}
MASKED = {"TRANSFORMATION": 8, "AGGREGATION": 32}


def moment(text: str) -> datetime.datetime:
    """Return a time in UTC."""
    time = datetime.datetime.fromisoformat(text)
    return time.replace(tzinfo=datetime.UTC) if time.tzinfo is None else time.astimezone(datetime.UTC)


def integration_of(event: dict[str, Any]) -> str:
    return str((event["job"].get("facets") or {}).get("jobType", {}).get("integration", "")).upper()


def job_kind_of(event: dict[str, Any]) -> str:
    return str((event["job"].get("facets") or {}).get("jobType", {}).get("jobType", "")).upper()


def job_type_of(event: dict[str, Any]) -> str | None:
    return f"{integration_of(event)}_{job_kind_of(event)}" if integration_of(event) else None


def path_without_partitions(name: str, integration: str) -> str:
    if integration != "SPARK":
        return name
    kept: list[str] = []
    for part in name.split("/"):
        if "=" in part:
            break
        kept.append(part)
    return "/".join(kept)


def time_in(run_id: uuid.UUID) -> datetime.datetime | None:
    if run_id.version != 7:
        return None
    return moment("1970-01-01") + datetime.timedelta(milliseconds=int(run_id.hex[:12], 16))


def hour_of(operation_id: uuid.UUID, time: datetime.datetime) -> datetime.datetime:
    created = time_in(operation_id)
    if created is None:
        return time.replace(minute=0, second=0, microsecond=0)
    while created + datetime.timedelta(hours=1) <= time:
        created += datetime.timedelta(hours=1)
    return created


def schema_of(said: dict[str, Any]) -> str | None:
    fields = (said.get("facets") or {}).get("schema", {}).get("fields")
    return json.dumps(fields, sort_keys=True) if fields else None


def write_of(said: dict[str, Any], query: str | None) -> int:
    change = (said.get("facets") or {}).get("lifecycleStateChange")
    if change is not None:
        return WRITES[change["lifecycleStateChange"]]
    text = re.sub(r"\s+", " ", query or "").strip().upper()
    return next((WRITES[kind] for start, kind in SQL if text.startswith(start)), 0)


def columns_of(said: dict[str, Any]) -> list[tuple[tuple[str, str], str, str | None, int]]:
    """Return source, source column, target column and use, for each time that one is said."""
    lineage = (said.get("facets") or {}).get("columnLineage", {})
    found = []
    for target, sources in lineage.get("fields", {}).items():
        for each in sources["inputFields"]:
            for how in each["transformations"]:
                column = target if how["type"] == "DIRECT" else None
                found.append(((each["namespace"], each["name"]), each["field"], column, _use(how)))
    for each in lineage.get("dataset", ()):
        found.extend(
            ((each["namespace"], each["name"]), each["field"], None, _use(how)) for how in each["transformations"]
        )
    return found


def _use(how: dict[str, Any]) -> int:
    return MASKED[how["subtype"]] if how["masking"] else USES[how["subtype"]]


def least_host(job: dict[str, Any]) -> str:
    place: str = job["namespace"].lower().rpartition("://")[2]
    return min(place.split("/", maxsplit=1)[0].split(","))


def event_of(value: bytes) -> dict[str, Any] | None:
    """Return the event, or None if it is malformed."""
    try:
        event = json.loads(value)
        moment(event["eventTime"])
        if "run" in event:
            uuid.UUID(event["run"]["runId"])
            event["job"]["name"], event["job"]["namespace"]
        elif "eventType" in event or not ("job" in event or "dataset" in event):
            return None
        for each in (*(event.get("inputs") or ()), *(event.get("outputs") or ())):
            each["name"], each["namespace"]
    except (ValueError, KeyError, TypeError):
        return None
    assert isinstance(event, dict)
    return event
