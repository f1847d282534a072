"""A whole pipeline into an Iceberg table: drivers that die, and a column that is added."""

import datetime
from typing import Any

import pytest

from support.iceberg_tables import iceberg_rows
from support.pipelines import Lab, drive, dying

SCHEMA = "id bigint NOT NULL, at timestamp, small smallint, tags array<string>"
EVENT = {"at": "2026-01-31T12:00:00Z", "small": 7, "tags": ["a", None]}


@pytest.mark.parametrize("point", ["in_commit:iceberg", "sink_committed:iceberg"])
def test_a_driver_that_dies_loses_and_doubles_nothing_and_the_next_one_adds_a_column(lab: Lab, point: str) -> None:
    topic = lab.kafka.topic("iceberg", partitions=2)
    path = lab.folder / "tables" / "orders"
    parts: dict[str, Any] = {"sinks": [{"type": "iceberg", "path": str(path), "partition_by": ["days(at)"]}]}
    before = lab.spec(topic, decode={"type": "json", "schema": SCHEMA}, **parts)
    after = lab.spec(topic, decode={"type": "json", "schema": f"{SCHEMA}, added decimal(10,2)"}, **parts)
    for partition in range(2):
        lab.send(topic, *({**EVENT, "id": partition * 10 + number} for number in range(3)), partition=partition)
    lab.run(before)
    lab.send(topic, {**EVENT, "id": 3, "at": None})
    with dying(point), lab.runner(before) as runner:
        drive(runner)
    lab.send(topic, {**EVENT, "id": 4, "added": "9.90"})
    lab.run(after)

    rows = sorted(iceberg_rows(path), key=lambda row: row["id"])
    assert [0, 1, 2, 3, 4, 10, 11, 12] == [row["id"] for row in rows]
    assert [None] * 4 + ["9.90"] + [None] * 3 == [row["added"] and str(row["added"]) for row in rows]
    moment = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    names = ("at", "small", "tags", "_partition", "_offset")
    assert (moment, 7, ["a", None], 0, 0) == tuple(rows[0][name] for name in names)
