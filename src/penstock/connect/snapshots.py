"""How far the snapshots of captures are, by what Debezium writes to a topic beside those of the tables.

An interrupted snapshot is not continued: Debezium takes another one, of the tables as they are then. Rows that were
read before and deleted in between are in the topics, and no change will ever take them out. The records of a table do
not tell: in a restarted snapshot of a table that has become empty there are none. So a snapshot that began twice is
taken once more, after a truncate (`Captures.restart_snapshot`); records of ours in the same
topic say how far that has got.
"""

from collections.abc import Iterable
from typing import Any, Literal

import orjson

from penstock.errors import NotFound
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.positions import bounds
from penstock.kafka.producer import Producer
from penstock.kafka.reader import read_all
from penstock.kafka.topic_spec import TopicSpec

State = Literal["not begun", "being taken", "complete", "interrupted", "restarting", "unknown"]
Ours = Literal["begun", "restarting"]
_OURS = b"penstock"
_AGGREGATE = "Initial Snapshot"
_ENDED = {"COMPLETED", "SKIPPED"}
"""Skipped is what a task says that finds a complete one."""


def topic_of(capture: str) -> str:
    """Name the topic that tells of a capture's snapshots."""
    return f"__penstock-snapshots.{capture}"


def settings(capture: str) -> dict[str, str]:
    """Return the settings that make Debezium tell."""
    return {"notification.enabled.channels": "sink", "notification.sink.topic.name": topic_of(capture)}


def ensure_topic(admin: Admin, capture: str) -> None:
    """Make the topic, unless it is there. What it holds is small, and forgotten only with the topic."""
    topics.ensure(admin, topic_of(capture), TopicSpec(partitions=1, cleanup="delete", retention=-1))


def note(admin: Admin, capture: str, words: Ours) -> None:
    """Put on record that a first snapshot comes next, or that the one which is interrupted is restarting."""
    with Producer(admin.connection) as producer:
        producer.send(topic_of(capture), words.encode(), key=_OURS, partition=0)


def end(admin: Admin, capture: str) -> int:
    """Return where the topic ends: while that stays the same, so does the state."""
    topic = topic_of(capture)
    return bounds(admin, [(topic, 0)])[topic, 0][1]


def state(admin: Admin, capture: str) -> State:
    """Return how far the snapshot of a capture is."""
    try:
        records = read_all(admin.connection, topic_of(capture))
    except NotFound:
        return "unknown"
    return judged((each.key(), each.value()) for each in records)


def judged(records: Iterable[tuple[Any, Any]]) -> State:
    """Return what the records of the topic come to."""
    found: State = "unknown"
    started = 0
    for key, value in records:
        if key == _OURS:
            found = "not begun" if value == b"begun" else "restarting"
            started = 0
        elif found != "restarting":
            kind = _kind(value)
            started += kind == "STARTED"
            if started > 1:
                found = "interrupted"
            elif kind in _ENDED:
                found = "complete"
            elif kind == "STARTED":
                found = "being taken"
    return found


def _kind(value: bytes | None) -> str | None:
    """Return what a notification says; None if it is of nothing that matters here."""
    try:
        said = orjson.loads(value or b"null")
        payload = said.get("payload") or said
        return str(payload["type"]) if payload["aggregate_type"] == _AGGREGATE else None
    except (ValueError, AttributeError, KeyError, TypeError):
        return None
