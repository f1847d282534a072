"""`penstock lineage start`: from nothing to a store that follows the topic."""

import uuid
from pathlib import Path

from penstock.kafka.producer import Producer
from penstock.lineage.store.address import StoreAddress, default_path

from conftest import Cli, RunningKafka
from support.lineage_history import values
from support.lineage_store import ids_of
from support.waiting import until

_EVENT = (
    '{"eventTime": "2026-03-01T12:00:00Z", "eventType": "START", "run": {"runId": "%s"},'
    ' "job": {"namespace": "local://here", "name": "late"}}'
)


def test_the_store_is_made_filled_and_follows_the_topic(kafka: RunningKafka, cli: Cli, tmp_path: Path) -> None:
    topic, late = kafka.topic("lineage-start", partitions=2), uuid.uuid4()
    address = StoreAddress(store=str(default_path(tmp_path)))
    server = ("--bootstrap", kafka.connection.bootstrap_servers)
    with Producer(kafka.connection) as producer:
        for each in values(5, 20, malformed=0, twice=0):
            producer.send(topic, each)
    started = cli(*server, "lineage", "start", "--topic", topic, "--max-wait", "100ms", home=tmp_path)
    try:
        assert 0 == started.code, started.err
        before = ids_of(address, "run")
        with Producer(kafka.connection) as producer:
            producer.send(topic, _EVENT % late)
        until(lambda: late in ids_of(address, "run"))
    finally:
        stopped = cli(*server, "pipeline", "stop", "lineage", home=tmp_path)

    assert (True, False, 0) == (bool(before), late in before, stopped.code)
