"""What it costs a job to report its lineage with OpenLineage's client, by Kafka and by HTTP; and a spike."""

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from penstock.errors import DeliveryFailed, EnvironmentNotReady
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.positions import bounds
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.bench.memory import Memory
from penstock.lab.bench.throwaway_gateway import gateway
from penstock.lab.bench.throwaway_kafka import Step, one_node
from penstock.lab.sending_times import SendingTimes, call_times

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent
    from openlineage.client.transport import Transport

_TOPIC = "input.runs"
_PARTITIONS = 4
_SENDERS = 4
_BATCH = 500
_WARM_UP = 50
_CREATED = 201


class SendingLine(SendingTimes, frozen=True):
    """One way to send, one event at a time."""

    event_bytes: int = Field(description="Bytes of an event.")


class SpikeLine(BaseModel, frozen=True):
    """A spike at the gateway."""

    events: int = Field(description="Events, in batches, as fast as they go.")
    batch: int = Field(description="Events of a batch.")
    senders: int = Field(description="Connections.")
    seconds: float = Field(description="From the first to the last answer.")
    events_per_s: int = Field(description="Events a second.")
    refused: int = Field(description="Batches that were not answered with 201.")
    most_mb: int = Field(description="Memory of the gateway, at most.")


def run(
    home: Path, jar_folder: Path, *, events: int, spike_events: int, step: Step
) -> tuple[list[SendingLine], SpikeLine]:
    """Send on a throwaway cluster of one node; all that was acknowledged must be in the topic in the end."""
    if find_spec("openlineage") is None:
        raise EnvironmentNotReady(
            "this bench sends with OpenLineage's client, which is not installed",
            safe="Nothing was started",
            fix="Run: pip install openlineage-python",
        )
    with one_node(home, jar_folder, step) as cluster:
        connection = cluster.connection()
        topics.create(Admin(connection), _TOPIC, TopicSpec(partitions=_PARTITIONS))
        lines = []
        with gateway(connection, home) as (address, pid):
            ways = _ways(connection, address)
            for number, (way, transport) in enumerate(ways.items()):
                step(f"{way}: {events:,} events", number, len(ways) + 1)
                lines.append(_timed(way, transport(), events))
            step(f"a spike of {spike_events:,} events", len(ways), len(ways) + 1)
            with Memory(pid) as memory:
                seconds, statuses = _spike(address, spike_events)
        _require_all(connection, len(ways) * (events + _WARM_UP) + _BATCH * statuses[_CREATED])
    refused = sum(statuses.values()) - statuses[_CREATED]
    spike = SpikeLine(
        events=_BATCH * sum(statuses.values()),
        batch=_BATCH,
        senders=_SENDERS,
        seconds=round(seconds, 1),
        events_per_s=round(_BATCH * statuses[_CREATED] / seconds),
        refused=refused,
        most_mb=round(memory.most_bytes / 1e6),
    )
    return lines, spike


def _ways(connection: Connection, address: str) -> "dict[str, Callable[[], Transport]]":
    from openlineage.client.transport.http import HttpConfig, HttpTransport
    from openlineage.client.transport.kafka import KafkaConfig, KafkaTransport

    settings = {"bootstrap.servers": connection.bootstrap_servers, "acks": "all", "partitioner": "murmur2_random"}

    def kafka(*, flush: bool) -> "Transport":
        return KafkaTransport(KafkaConfig(config=settings, topic=_TOPIC, flush=flush))

    return {
        "Kafka, not waiting": lambda: kafka(flush=False),
        "Kafka, waiting for the acknowledgement": lambda: kafka(flush=True),
        "HTTP to the gateway, which waits for it": lambda: HttpTransport(HttpConfig.from_dict({"url": address})),
    }


def _event() -> "RunEvent":
    """Return an event of about 2.7 KB, as one of Spark's listener is."""
    from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import schema_dataset
    from openlineage.client.uuid import generate_new_uuid

    fields = [schema_dataset.SchemaDatasetFacetFields(name=f"column_{each:02}", type="string") for each in range(14)]
    facets: dict[str, Any] = {"schema": schema_dataset.SchemaDatasetFacet(fields=fields)}
    return RunEvent(
        eventTime="2026-01-01T00:00:00.000Z",
        eventType=RunState.COMPLETE,
        run=Run(runId=str(generate_new_uuid())),
        job=Job(namespace="shop", name="load_orders"),
        inputs=[InputDataset(namespace="kafka://broker", name="orders", facets=facets)],
        outputs=[OutputDataset(namespace="hdfs://namenode", name="/warehouse/orders", facets=facets)],
        producer="https://penstock.example/bench",
    )


def _timed(way: str, transport: "Transport", events: int) -> SendingLine:
    from openlineage.client.serde import Serde

    event = _event()
    times = []
    for _ in range(_WARM_UP + events):
        before = time.perf_counter()
        transport.emit(event)
        times.append(time.perf_counter() - before)
    transport.close()
    return SendingLine(
        way=way,
        events=events,
        event_bytes=len(Serde.to_json(event)),
        **call_times(times[_WARM_UP:]),
    )


def _spike(address: str, events: int) -> tuple[float, Counter[int]]:
    """Send batches over some connections as fast as they are answered; return how long it took, and the answers."""
    from openlineage.client.serde import Serde

    one = Serde.to_json(_event()).encode()
    body = b"[" + b",".join([one] * _BATCH) + b"]"
    place = urlsplit(address)
    left = iter(range(events // _BATCH))
    lock = threading.Lock()
    statuses: Counter[int] = Counter()

    def send() -> None:
        client = http.client.HTTPConnection(place.hostname or "", place.port, timeout=120)
        while True:
            with lock:
                if next(left, None) is None:
                    break
            client.request("POST", "/api/v1/lineage", body, {"Content-Type": "application/json"})
            answer = client.getresponse()
            answer.read()
            with lock:
                statuses[answer.status] += 1
        client.close()

    senders = [threading.Thread(target=send) for _ in range(_SENDERS)]
    began = time.monotonic()
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    return time.monotonic() - began, statuses


def _require_all(connection: Connection, wanted: int) -> None:
    found = bounds(Admin(connection), [(_TOPIC, number) for number in range(_PARTITIONS)])
    count = sum(end - start for start, end in found.values())
    if count != wanted:
        raise DeliveryFailed(f"{count} of {wanted} events are in the topic")
