"""A bad deploy: every record of a busy hour is a dead letter, and all of them go through the fixed pipeline at once."""

import json
import time
from collections import Counter

import pytest
import yaml
from deltalake import DeltaTable

from penstock.config import settings
from penstock.delivery.selection import Filter, select
from penstock.kafka.producer import Producer
from penstock.operate import replay as replays

from support.pipelines import Lab

COUNT = 200_000


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_200000_dead_letters_are_replayed_each_once(lab: Lab) -> None:
    topic = lab.kafka.topic("dead-many", partitions=4)
    with Producer(lab.connection) as producer:
        for partition in range(4):
            numbers = range(partition, COUNT, 4)
            values = [{"value": json.dumps({"id": number, "name": f"n{number}"})} for number in numbers]
            producer.send_many(topic, values, partition=partition)
    began = time.monotonic()
    lab.run(lab.spec(topic, steps=[{"sql": "SELECT id, string(1 / (id - id)) AS name FROM events"}]))
    failed = time.monotonic()
    file = lab.folder / "fixed.yaml"
    file.write_text(yaml.safe_dump(lab.document(topic)))
    given = settings.load(home=lab.kafka.home)

    letters = list(select(lab.connection, Filter(pipeline=topic)))
    chosen = time.monotonic()
    begun = replays.begin(given, letters, file)
    claimed = time.monotonic()
    status = replays.run(given, begun)
    done = time.monotonic()

    took = {"fail": failed - began, "choose": chosen - failed, "claim": claimed - chosen, "replay": done - claimed}
    print({name: f"{seconds:.0f} s" for name, seconds in took.items()})  # noqa: T201 - the figures of a soak
    rows = DeltaTable(str(lab.table)).to_pyarrow_table(columns=["id"]).column("id").to_pylist()
    assert (COUNT, COUNT, 0) == (len(letters), status.sinks["delta"].written, status.dead)
    assert Counter(range(COUNT)) == Counter(rows)
    assert [] == list(select(lab.connection, Filter(pipeline=topic)))
