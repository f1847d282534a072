"""The lineage pipeline under faults, judged by an independent reading of the events that were sent."""

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from penstock.kafka.producer import Producer
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.lineage.store.address import StoreAddress
from penstock.sinks.postgres_server import Server

from conftest import RunningKafka
from support.drivers import Driver, start_driver
from support.landing import dead_letters
from support.lineage_content import of_facts
from support.lineage_history import MALFORMED, values
from support.lineage_oracle import content
from support.lineage_store import store_on, stored
from support.postgres_driver import ask
from support.waiting import until

KILLED = -9


def send(kafka: RunningKafka, topic: str, listed: list[bytes]) -> None:
    with Producer(kafka.connection) as producer:
        for number, value in enumerate(listed):
            producer.send(topic, value, key=str(number))


def write_pipeline(file: Path, topic: str, sinks: list[dict[str, Any]]) -> None:
    pipeline = {
        "name": topic,
        "source": {"topics": [topic]},
        "decode": {"type": "openlineage"},
        "batch": {"max_events": 300},
        "sinks": sinks,
        "speed": "scheduled",
    }
    file.write_text(yaml.safe_dump(pipeline))


def test_a_store_is_equal_to_its_events_after_kills_of_the_driver_and_of_the_database(
    kafka: RunningKafka, postgres: RunningPostgres, tmp_path: Path
) -> None:
    topic, file, log = kafka.topic("runs", partitions=2), tmp_path / "lineage.yaml", tmp_path / "driver.log"
    server = postgres.database()
    keys = store_on(server)
    in_postgres = StoreAddress(**keys)
    in_sqlite = StoreAddress(store=str(tmp_path / "lineage.db"))
    secret = {**keys, "password": f"file:{postgres.password_file}"}
    sqlite = {"type": "lineage", "name": "sqlite", "store": in_sqlite.store}
    write_pipeline(file, topic, [sqlite, {"type": "lineage", "name": "postgres", **secret}])
    listed = values(31, 420)
    part = len(listed) // 3

    def drive(**environment: str) -> Driver:
        return start_driver(kafka.home, file, log, **environment)

    send(kafka, topic, listed[:part])
    driver = drive(PENSTOCK_CRASH_AT="in_commit:postgres")  # the other store has the batch by then
    assert KILLED == driver.wait(), driver.said
    send(kafka, topic, listed[part:])
    with closing(server.connect()) as somebody_else:
        somebody_else.execute("LOCK TABLE lineage.run IN EXCLUSIVE MODE")
        driver = drive()
        driver.reach(lambda: _waits_for_a_lock(server))  # in mid-batch, and no further
        postgres.kill()
    until(lambda: "waiting: PostgreSQL" in driver.said)
    postgres.start()

    assert 0 == driver.wait(), driver.said
    expected = content(listed)
    for address in (in_sqlite, in_postgres):
        actual = of_facts(stored(address))
        for what, held in expected.items():
            assert held == actual[what], (str(address), what)
    letters = Counter(each.value for each in dead_letters(kafka.connection, f"{topic}.dead", topic))
    assert Counter(value for value in listed if value in MALFORMED) == letters


def _waits_for_a_lock(server: Server) -> bool:
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return ask(server, waiting) != []
