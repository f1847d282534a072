"""The page of metrics, inside a driver, as strangers reach it."""

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from penstock.operate import metrics_page
from penstock.operate.metrics import MetricsServer
from penstock.operate.status import Status
from penstock.pipeline.metrics import Metrics

from support.waiting import until

STRANGERS = 100
ROOM = 40
"""Files that the driver may come to have open: those of both ends are its own here."""


@pytest.fixture
def page(tmp_path: Path) -> Iterator[str]:
    status = Status(pipeline="orders", state="running", pid=1, file="orders.yaml")
    with MetricsServer(Metrics(port=0), status, tmp_path):
        yield status.metrics


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def answers(address: str | urllib.request.Request) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - the page of this test
            return b"penstock_events_total" in answer.read()
    except (urllib.error.URLError, ConnectionError):
        return False


def test_strangers_who_say_nothing_take_no_files_and_are_sent_away(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_page._Answer, "timeout", 1.0)
    port = int(page.rpartition(":")[2].partition("/")[0])
    before = open_files()
    with ExitStack() as strangers:
        for _ in range(STRANGERS):
            one = strangers.enter_context(closing(socket.create_connection(("127.0.0.1", port), timeout=60)))
            one.sendall(b"GET /metrics HTTP/1.1\r\n")

        until(lambda: answers(page))  # connections are taken in their order: those of all strangers were
        held = open_files() - before - STRANGERS

    assert held < ROOM


def test_a_page_of_another_site_does_not_get_there_by_a_name_of_its_own(page: str) -> None:
    port = page.rpartition(":")[2].partition("/")[0]
    found = []
    for host in (f"rebound.example:{port}", f"localhost:{port}", f"127.0.0.1:{port}"):
        asked = urllib.request.Request(page, headers={"Host": host})  # noqa: S310 - the page of this test
        found.append(answers(asked))

    assert [False, True, True] == found
