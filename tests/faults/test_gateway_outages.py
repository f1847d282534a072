"""Kafka hangs, dies and comes back under a gateway: what was answered 201 is there once, and no 503 lies."""

import json
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from penstock.kafka.reader import read_all

from conftest import RunningKafka
from support.gateways import running_gateway
from support.waiting import until


class _Senders:
    """Each event has a number of its own and is sent once; the journal has what was answered."""

    def __init__(self, address: str, topic: str) -> None:
        self.journal: dict[int, str] = {}
        self._over = threading.Event()
        self._path = f"{address}/topics/{topic}"
        self._threads = [threading.Thread(target=self._send, args=(first,)) for first in range(4)]
        for thread in self._threads:
            thread.start()

    def _send(self, number: int) -> None:
        with httpx.Client(timeout=240, trust_env=False) as client:
            while not self._over.wait(0.02):
                answer = client.post(self._path, json={"number": number})
                self.journal[number] = "written" if answer.status_code == 201 else _told(answer)
                number += 4

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def count(self) -> Counter[str]:
        return Counter(dict(self.journal).values())


def _told(answer: httpx.Response) -> str:
    error: dict[str, Any] = answer.json()["error"]
    assert (503, True) == (answer.status_code, int(answer.headers["Retry-After"]) > 0), error
    return {None: "unknown", False: "not written"}[error["details"]["written"]]


@contextmanager
def _hung(kafka: RunningKafka) -> Iterator[None]:
    process = kafka.cluster.node(1).process()
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@contextmanager
def _killed(kafka: RunningKafka) -> Iterator[None]:
    process = kafka.cluster.node(1).process()
    assert process is not None
    process.kill()
    process.wait(60)
    try:
        yield
    finally:
        kafka.start_again()


@pytest.mark.parametrize("outage", [_hung, pytest.param(_killed, marks=pytest.mark.soak)])
def test_an_outage_loses_no_accepted_event_and_every_503_tells_the_truth(
    kafka: RunningKafka, tmp_path: Path, outage: Callable[[RunningKafka], AbstractContextManager[None]]
) -> None:
    topic = kafka.topic("gateway", partitions=2)
    address = kafka.connection.bootstrap_servers
    with running_gateway(address, kafka.topic("runs"), "--timeout-s", "1", folder=tmp_path) as gateway:
        senders = _Senders(str(gateway.client.base_url), topic)
        try:
            until(lambda: senders.count()["written"] > 20)
            with outage(kafka):
                until(lambda: senders.count()["unknown"] > 0 and senders.count()["not written"] > 5)
            before = senders.count()["written"]
            until(lambda: senders.count()["written"] > before + 20)
        finally:
            senders.stop()

    values = [message.value() or b"" for message in read_all(kafka.connection, topic)]
    found = Counter(json.loads(value)["number"] for value in values)
    by_answer = {told: {n for n, each in senders.journal.items() if each == told} for told in senders.count()}
    assert set() == by_answer["written"] - set(found)
    assert set() == by_answer["not written"] & set(found)
    assert {1} == set(found.values())
    assert set(found) <= by_answer["written"] | by_answer["unknown"]
