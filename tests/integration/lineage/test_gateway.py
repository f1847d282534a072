"""The gateway on a real broker: what it answers 201 to is in the topic, and what it refuses is not."""

import asyncio
import gzip
import json
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import psutil
import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
from openlineage.client.transport.http import HttpConfig, HttpTransport
from openlineage.client.transport.kafka import KafkaConfig, KafkaTransport

from penstock.kafka import acls, users
from penstock.kafka.reader import read_all
from penstock.lineage.gateway.delivery import Delivery
from penstock.lineage.gateway.events import Record
from penstock.lineage.gateway.options import GatewayLimits
from penstock.lineage.gateway.refusal import Refusal
from penstock.secret import Secret

from support.gateways import LINEAGE, RunningGateway, running_gateway
from support.waiting import eventually, until

if TYPE_CHECKING:
    from conftest import RunningKafka


@pytest.fixture(scope="module")
def gateway(kafka: "RunningKafka", tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """One gateway for the tests that need nothing special; each sends to a topic of its own."""
    options = ("--max-body", "1MiB")
    folder = tmp_path_factory.mktemp("gateway")
    with running_gateway(kafka.connection.bootstrap_servers, kafka.topic("runs"), *options, folder=folder) as running:
        yield running


def _event(number: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "eventTime": "2026-01-01T00:00:00Z",
        "eventType": "START",
        "run": {"runId": str(uuid4())},
        "job": {"namespace": "shop", "name": f"job-{number}"},
        **more,
    }


def _values(kafka: "RunningKafka", topic: str) -> list[bytes]:
    return [message.value() or b"" for message in read_all(kafka.connection, topic)]


def test_an_accepted_event_is_in_the_topic_byte_for_byte(kafka: "RunningKafka", tmp_path: Path) -> None:
    topic = kafka.topic("runs", partitions=3)
    bodies = [json.dumps(_event(number), indent=number).encode() for number in range(4)]
    with running_gateway(kafka.connection.bootstrap_servers, topic, folder=tmp_path) as gateway:
        answers = [
            gateway.post(bodies[0]),
            gateway.post(bodies[1], "/v1/openlineage"),
            gateway.post(gzip.compress(bodies[2]), **{"Content-Encoding": "gzip"}),
            gateway.post(b"[" + bodies[3] + b"]", f"{LINEAGE}/batch"),
        ]
        metrics = gateway.client.get("/monitoring/metrics").text
        ping = gateway.client.get("/monitoring/ping")
        ready = gateway.client.get("/monitoring/ready")
        said = gateway.stop()

    assert [201] * 4 == [answer.status_code for answer in answers]
    assert [b""] * 4 == [answer.content for answer in answers]
    assert sorted(bodies) == sorted(_values(kafka, topic))
    assert "penstock_gateway_events_total 4\n" in metrics
    assert (200, {"status": "ok"}) == (ping.status_code, ping.json())
    assert (200, {"status": "ok"}) == (ready.status_code, ready.json())
    assert "4 events acknowledged by Kafka, 4 requests answered" in said


def test_openlineages_own_clients_reach_the_same_partition_by_http_and_by_kafka(
    kafka: "RunningKafka", tmp_path: Path
) -> None:
    topic = kafka.topic("runs", partitions=7)
    bootstrap = kafka.connection.bootstrap_servers
    settings = {"bootstrap.servers": bootstrap, "acks": "all", "partitioner": "murmur2_random"}
    direct = OpenLineageClient(transport=KafkaTransport(KafkaConfig(config=settings, topic=topic)))
    with running_gateway(bootstrap, topic, folder=tmp_path, PENSTOCK_GATEWAY_TOKEN="t0ken") as gateway:
        config = {"url": str(gateway.client.base_url), "auth": {"type": "api_key", "apiKey": "t0ken"}}
        by_http = OpenLineageClient(transport=HttpTransport(HttpConfig.from_dict(config)))
        for number in range(5):
            run, job = Run(runId=str(uuid4())), Job(namespace="shop", name=f"job-{number}")
            for client, state in ((direct, RunState.START), (by_http, RunState.COMPLETE)):
                client.emit(RunEvent(eventTime="2026-01-01T00:00:00Z", eventType=state, run=run, job=job, producer="t"))
        unknown = gateway.post(_event())
    direct.close()

    found = read_all(kafka.connection, topic)
    assert 10 == len(found)
    assert 5 == len({(message.key(), message.partition()) for message in found})
    assert (401, "unauthorized") == (unknown.status_code, unknown.json()["error"]["code"])


def _bomb() -> bytes:
    return gzip.compress(b'{"a": "' + b"x" * 50_000_000 + b'"}')


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"no json", {}, 400, "invalid_request"),
        ([_event(), {**_event(), "run": None}], {}, 422, "invalid_request"),
        (_event(eventType="BEGIN"), {}, 422, "invalid_request"),
        (b"[" * 5000, {}, 422, "invalid_request"),
        (b"x" * 2_000_000, {}, 413, "too_large"),
        (_bomb(), {"Content-Encoding": "gzip"}, 413, "too_large"),
        (gzip.compress(b"{}")[:-4], {"Content-Encoding": "gzip"}, 400, "invalid_request"),
        (zlib.compress(b"{}"), {"Content-Encoding": "deflate"}, 415, "unsupported_media_type"),
        (_event(), {"Origin": "http://evil.example"}, 403, "forbidden"),
    ],
    ids=["no-json", "partly-bad", "would-be-dead", "deep", "large", "bomb", "torn", "deflate", "page"],
)
def test_a_bad_request_gets_one_clear_answer_and_writes_nothing(
    kafka: "RunningKafka", gateway: RunningGateway, content: Any, headers: dict[str, str], status: int, code: str
) -> None:
    topic = kafka.topic("refused")
    path = f"/topics/{topic}" if code != "invalid_request" else LINEAGE
    before = gateway.client.get("/monitoring/metrics").text.split("events_total ")[1].split()[0]
    answer = gateway.post(content, path, **headers)
    after = gateway.client.get("/monitoring/metrics").text.split("events_total ")[1].split()[0]

    assert (status, code) == (answer.status_code, answer.json()["error"]["code"])
    assert (before, []) == (after, _values(kafka, topic))
    if isinstance(content, list):
        assert ["body", 1, "run"] == answer.json()["error"]["details"][0]["location"]


def test_a_name_that_no_topic_can_have_keeps_nobody_from_theirs(kafka: "RunningKafka", gateway: RunningGateway) -> None:
    new = kafka.topic("orders")
    refused = gateway.post({"order": 1}, "/topics/%2e%2e")
    taken = gateway.post({"order": 2}, f"/topics/{new}")

    assert [(422, "invalid_request"), 201] == [
        (refused.status_code, refused.json()["error"]["code"]),
        taken.status_code,
    ]


def test_any_json_goes_to_any_topic_that_is_there(kafka: "RunningKafka", gateway: RunningGateway) -> None:
    topic = kafka.topic("orders")
    answers = [
        gateway.post([{"order": 1}, {"order": 2}], f"/topics/{topic}?key=shop"),
        gateway.post({"order": 3}, "/topics/nobody-made-this"),
        gateway.post({"order": 4}, "/topics/__consumer_offsets"),
        gateway.post({"order": 5}, f"/topics/{topic}?colour=red"),
    ]

    assert [201, 404, 403, 422] == [answer.status_code for answer in answers]
    assert [b'{"order": 1}', b'{"order": 2}'] == _values(kafka, topic)


def test_a_spike_of_batches_is_taken_in_bounded_memory_and_in_order(
    kafka: "RunningKafka", gateway: RunningGateway
) -> None:
    topic = kafka.topic("spike")
    process = psutil.Process(gateway.process.pid)
    text = "x" * 400

    def send(number: int) -> int:
        batch = [{"sender": number % 4, "number": number, "event": each, "text": text} for each in range(250)]
        return gateway.post(batch, f"/topics/{topic}").status_code

    before = process.memory_info().rss
    with ThreadPoolExecutor(4) as pool:
        statuses = set(pool.map(send, range(80)))

    found = [json.loads(value) for value in _values(kafka, topic)]
    assert {201} == statuses
    assert 20_000 == len(found) == len({(each["number"], each["event"]) for each in found})
    for number in range(80):
        assert list(range(250)) == [each["event"] for each in found if each["number"] == number]
    assert process.memory_info().rss - before < 200 * 2**20


def test_a_gateway_that_is_told_to_end_answers_what_it_has_taken(kafka: "RunningKafka", tmp_path: Path) -> None:
    topic = kafka.topic("runs")
    with running_gateway(kafka.connection.bootstrap_servers, topic, folder=tmp_path) as gateway:
        statuses: list[int] = []

        def send() -> None:
            batch = [_event(number) for number in range(500)]
            with httpx.Client(base_url=gateway.client.base_url, timeout=240, trust_env=False) as client:
                while not statuses or statuses[-1] == 201:
                    try:
                        statuses.append(client.post(LINEAGE, json=batch).status_code)
                    except httpx.TransportError:
                        return

        senders = [threading.Thread(target=send) for _ in range(3)]
        for sender in senders:
            sender.start()
        until(lambda: len(statuses) > 5)
        gateway.stop()
        for sender in senders:
            sender.join()

    accepted = 500 * statuses.count(201)
    assert accepted == len(_values(kafka, topic))


def test_a_gateway_for_others_does_not_start_without_a_token(cli: Callable[..., Any]) -> None:
    said = cli("--bootstrap", "127.0.0.1:1", "gateway", "--host", "0.0.0.0")  # noqa: S104

    assert (2, 1) == (said.code, len(said.error_lines))
    assert "needs a token" in said.err


def test_a_connection_that_kafka_has_ended_for_good_is_replaced(secure_kafka: "RunningKafka") -> None:
    topic, admin = secure_kafka.topic("granted-later"), secure_kafka.admin()
    users.put(admin, "gateway", "long-enough")
    security = secure_kafka.connection.security.model_copy(
        update={"username": "gateway", "password": Secret.of("long-enough")}
    )
    connection = secure_kafka.connection.model_copy(update={"security": security})

    async def send() -> None:
        delivery = Delivery(connection, GatewayLimits(answer_timeout_s=120))
        first = delivery._line
        with pytest.raises(Refusal):
            await delivery.deliver(topic, [Record(b"refused", None, 0)])
        await asyncio.to_thread(eventually, lambda: first.is_broken)
        acls.allow(admin, acls.producer_acls("gateway", [topic]))
        await delivery.deliver(topic, [Record(b"taken", None, 0)])
        first.thread.join(240)
        assert (False, True) == (first.thread.is_alive(), delivery._line.thread.is_alive())
        await asyncio.to_thread(delivery.close)

    asyncio.run(send())

    assert [b"taken"] == _values(secure_kafka, topic)
