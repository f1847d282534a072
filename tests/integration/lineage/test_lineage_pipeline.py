"""Events through Kafka and the pipeline into the store, compared with an independent reading of them."""

from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from penstock.kafka.producer import Producer
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.lineage.store.address import StoreAddress

from support.lineage_content import of_facts
from support.lineage_history import MALFORMED, values
from support.lineage_oracle import content
from support.lineage_store import store_on, stored
from support.pipelines import Lab, drive, dying, total


def _send(lab: Lab, topic: str, events: list[bytes]) -> None:
    with Producer(lab.connection) as producer:
        for number, value in enumerate(events):
            producer.send(topic, value, partition=number % 2)


@pytest.mark.parametrize("database", [pytest.param("sqlite", marks=pytest.mark.clients), "postgresql"])
def test_the_store_equals_an_independent_reading_whatever_dies_meanwhile(
    lab: Lab, postgres: RunningPostgres, tmp_path: Path, database: str
) -> None:
    keys: dict[str, Any] = store_on(postgres.database()) if database == "postgresql" else {"store": tmp_path / "l.db"}
    keys = {**keys, "store": str(keys["store"])}
    topic = lab.kafka.topic("lineage", partitions=2)
    events = values(7 if database == "sqlite" else 8, 100)
    _send(lab, topic, events)
    spec = lab.spec(
        topic,
        decode={"type": "openlineage"},
        batch={"max_events": 200},
        sinks=[{"type": "lineage", **keys}],
    )
    for point in ("in_commit:lineage", "prepared"):
        with dying(point):
            lab.run(spec)
    with lab.runner(spec) as runner:
        if database == "postgresql":
            postgres.kill()
            back = Thread(target=postgres.start)
            back.start()
        reports = drive(runner)
        if database == "postgresql":
            back.join()
    found = of_facts(stored(StoreAddress.model_validate(keys)))
    expected = content(events)

    for what, held in expected.items():
        assert held == found[what], what
    malformed = sum(value in MALFORMED for value in events)
    assert malformed == len(lab.letters(topic))
    assert {"decode"} == {letter.stage for letter in lab.letters(topic)}
    assert 0 < total(reports, "lineage").written <= len(events) - malformed
