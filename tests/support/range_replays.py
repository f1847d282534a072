"""Ranges of the past that tests land once more, and what became of each record."""

import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from penstock.config import settings
from penstock.delivery.selection import Filter, select
from penstock.kafka import groups
from penstock.kafka.producer import Producer
from penstock.operate import range_replay
from penstock.operate.range_replay import RangeReplay
from penstock.operate.status import Status

from support.pipelines import Lab

OLD = "SELECT id, CASE WHEN id % 10 = 3 THEN string(1 / (id - id)) ELSE 'old' END AS name FROM events"
NEW = "SELECT id, CASE WHEN id = 113 THEN string(1 / (id - id)) ELSE 'new' END AS name FROM events"
# Older records could be past the topic's retention.
BEGAN_MS = (int(time.time()) - 3600) * 1000


def write(lab: Lab, document: dict[str, Any], name: str = "changed.yaml") -> Path:
    file = lab.folder / name
    file.write_text(yaml.safe_dump(document))
    return file


def send_timed(lab: Lab, topic: str, numbers: range, partition: int, first_ms: int) -> None:
    """Send ids, a second apart by their timestamps."""
    with Producer(lab.connection) as producer:
        for place, number in enumerate(numbers):
            value = f'{{"id": {number}, "name": "n"}}'
            producer.send(topic, value, partition=partition, timestamp_ms=first_ms + 1000 * place)


def moment(seconds: int) -> str:
    """Name the time so many seconds after the first record."""
    return datetime.datetime.fromtimestamp(BEGAN_MS / 1000 + seconds, datetime.UTC).isoformat()


def begin(lab: Lab, file: Path, since: str, end: str, into: dict[str, str] | None = None) -> RangeReplay:
    given = settings.load(home=lab.kafka.home)
    return range_replay.begin(given, file, since, end, into or {}, replace=into is None)


def go_on(lab: Lab, begun: RangeReplay, show: Callable[[Status], None] = lambda _status: None) -> Status:
    """Run a replay as `--resume` does, on the Spark that runs already."""
    given = settings.load(home=lab.kafka.home)
    return range_replay.run(given, range_replay.find(given, begun.pipeline, begun.range.id), show=show)


def open_letters(lab: Lab, pipeline: str) -> list[tuple[int, int]]:
    """Return partition and offset of each letter that is not settled; one that is open twice stands twice."""
    return sorted((each.partition, each.offset) for each in select(lab.connection, Filter(pipeline=pipeline)))


def progress(lab: Lab, pipeline: str) -> tuple[bytes, Any]:
    """Return the live pipeline's checkpoint and what its group says."""
    group = groups.describe(lab.kafka.admin(), f"penstock.{pipeline}")
    return (lab.home(pipeline).checkpoint / "committed.json").read_bytes(), group


def named(lab: Lab, path: Path | None = None) -> dict[tuple[int, int], list[str]]:
    """Return the names that each record left in the table; one that landed twice has two."""
    found: dict[tuple[int, int], list[str]] = {}
    for row in lab.rows(path):
        found.setdefault((row["_partition"], row["_offset"]), []).append(row["name"])
    return found
