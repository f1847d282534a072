"""A console that many people use at the same time: long lists, open pages, and programs that ask without a pause."""

import asyncio
import http.client
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from deltalake import DeltaTable

from penstock.kafka.admin import Admin
from penstock.kafka.producer import Producer
from penstock.kafka.topic_spec import TopicSpec
from penstock.kafka.topics import create, delete

from conftest import Cli, RunningKafka
from support.live_pages import LivePage
from support.waiting import until

pytestmark = pytest.mark.soak
TOPICS = 1_000
PEOPLE = 50
CLIENTS = 25
PER_S, SECONDS = 200, 60
PATHS = ["/overview", "/topics", "/groups", "/pipelines", "/dead-letters", "/tables", "/nodes", "/me"]


@pytest.fixture
def address(kafka: RunningKafka, tmp_path: Path) -> Iterator[str]:
    at = kafka.connection.bootstrap_servers
    command = [sys.executable, "-m", "penstock", "--home", str(tmp_path), "--bootstrap", at, "console", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as console:
        assert console.stderr is not None
        said = re.match(r"console at (http://\S+);", console.stderr.readline())
        try:
            assert said is not None
            yield said[1]
        finally:
            console.terminate()
            console.wait(120)


def test_a_thousand_topics_are_listed_in_two_seconds(address: str, kafka: RunningKafka) -> None:
    admin = Admin(kafka.connection, timeout_s=60.0)
    names = [f"{kafka.topic('many')}.{number}" for number in range(TOPICS)]
    for name in names:
        create(admin, name, TopicSpec(partitions=1))
    try:
        began = time.monotonic()
        listed = httpx.get(f"{address}/api/v1/topics", timeout=30, trust_env=False).json()
        took_s = time.monotonic() - began
    finally:
        for name in names:
            delete(admin, name)

    assert set(names) <= {each["topic"] for each in listed}
    assert took_s < 2


def _ask_steadily(address: str, first: int, begin_s: float) -> list[int]:
    """Ask over one connection, each time when it is due; give the statuses."""
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
    statuses = []
    for number in range(first, PER_S * SECONDS, CLIENTS):
        time.sleep(max(0.0, begin_s + number / PER_S - time.monotonic()))
        connection.request("GET", f"/api/v1{PATHS[number % len(PATHS)]}")
        answer = connection.getresponse()
        answer.read()
        statuses.append(answer.status)
    connection.close()
    return statuses


def _send_steadily(kafka: RunningKafka, topic: str) -> int:
    """Send ten records a second for as long as others ask; give how many."""
    with Producer(kafka.connection) as producer:
        for number in range(10 * SECONDS):
            producer.send(topic, b'{"id": %d}' % number)
            time.sleep(0.1)
    return 10 * SECONDS


@pytest.mark.timeout(300)
def test_two_hundred_requests_a_second_for_a_minute_are_answered_and_a_pipeline_goes_on_beside_them(
    address: str, kafka: RunningKafka, tmp_path: Path, cli: Cli
) -> None:
    topic, file, table = kafka.topic("beside"), tmp_path / "beside.yaml", tmp_path / "beside"
    parts = {"decode": {"type": "json", "schema": "id bigint"}, "sinks": [{"type": "delta", "path": str(table)}]}
    file.write_text(yaml.safe_dump({"name": topic, "source": {"topics": [topic]}, "speed": "stream", **parts}))
    at = ("--bootstrap", kafka.connection.bootstrap_servers)
    started = cli(*at, "pipeline", "start", file, home=tmp_path)

    def status() -> dict[str, Any]:
        return dict(cli(*at, "pipeline", "status", topic, "--json", home=tmp_path).json)

    try:
        before = status()
        began_s = time.monotonic()
        with ThreadPoolExecutor(CLIENTS + 1) as pool:
            sending = pool.submit(_send_steadily, kafka, topic)
            asked = [pool.submit(_ask_steadily, address, first, began_s) for first in range(CLIENTS)]
            statuses = [status for each in asked for status in each.result()]
        took_s = time.monotonic() - began_s
        until(lambda: DeltaTable.is_deltatable(str(table)) and DeltaTable(str(table)).count() == sending.result())
        after = status()
    finally:
        cli(*at, "pipeline", "stop", topic, home=tmp_path)

    assert 0 == started.code
    assert (PER_S * SECONDS, {200}) == (len(statuses), set(statuses))
    assert took_s < SECONDS + 15
    assert ("running", 0, before["pid"]) == (after["state"], after["dead"], after["pid"])


async def _keep_open(shown: dict[str, str], address: str) -> float:
    """Open pages, all at once, until each was refreshed; return how long somebody else waits for an answer then."""
    pages = [LivePage(address, *each) for _, each in zip(range(PEOPLE), cycle(shown.items()), strict=False)]
    async with asyncio.timeout(240), httpx.AsyncClient(timeout=60, trust_env=False) as client:
        await asyncio.gather(*(each.open() for each in pages))
        await asyncio.gather(*(each.shown.wait() for each in pages))
        began_s = time.monotonic()
        answer = await client.get(f"{address}/api/v1/overview")
        waited_s = time.monotonic() - began_s
        await asyncio.gather(*(each.refreshed.wait() for each in pages))
        await asyncio.gather(*(each.close() for each in pages))
    assert answer.status_code == 200
    return waited_s


@pytest.mark.timeout(300)
def test_fifty_people_keep_pages_open_that_are_refreshed_for_all_of_them(address: str, kafka: RunningKafka) -> None:
    shown = {"/": "Nodes up", "/nodes": "Free on disk", f"/topics/{kafka.topic('open')}": "Kept for"}
    waited_s = asyncio.run(_keep_open(shown, address))

    assert waited_s < 2
