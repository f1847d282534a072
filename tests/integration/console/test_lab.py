"""The lab of a console: a drill in the browser, on a cluster of its own; games into the project's."""

from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from fastapi.testclient import TestClient

from penstock.config.project import Project
from penstock.config.services import Services, SimulatorService
from penstock.console import audit
from penstock.console.api.app import make_app
from penstock.console.service import Console
from penstock.kafka import topics
from penstock.kafka.reader import read_all

from conftest import RunningKafka, _skip_without
from support.browsers import NARROW, browsing_console, find_browser
from support.consoles import ADDRESS, Asked, settings_of
from support.waiting import until

DONE_S = 150.0


def processes_of(folder: Path) -> list[str]:
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        told = [*(process.info["cmdline"] or ()), process.info["cwd"] or ""]
        if any(f"{folder}/" in part for part in told):
            found.append(" ".join(told))
    return found


@pytest.mark.soak
def test_a_drill_is_started_watched_with_its_cluster_and_judged(kafka: RunningKafka, tmp_path: Path) -> None:
    _skip_without(find_browser)
    before = {each.topic for each in topics.list_topics(kafka.admin())}
    with browsing_console(tmp_path, kafka.connection.bootstrap_servers) as browser:
        browser.open("/lab")
        browser.shows("Nothing was started yet", "kill-broker", "queue-or-log", "No game has ended yet")
        browser.field("Start keys").click()
        browser.click("Start")
        browser.shows("keys (drill)", "Its cluster", "broker and controller", timeout_s=DONE_S)
        nodes = browser.text.count("broker and controller")
        browser.shows("as it should be", "Steps", "Expected", timeout_s=DONE_S)
        complaints, wide = browser.complaints, browser.overflow_px
        browser.resize(NARROW)
        narrow = browser.overflow_px
        browser.open("/lab")
        browser.shows("keys", "as it should be")

    assert (3, [], 0, 0) == (nodes, complaints, wide, narrow)
    assert [] == processes_of(tmp_path / "console" / "lab")
    assert [] == list(tmp_path.glob("console/lab/*/place/drill-*"))
    after = {each.topic for each in topics.list_topics(kafka.admin())}
    assert {audit.TOPIC} >= after - before


def test_games_are_played_into_the_project_scaled_and_stopped(kafka: RunningKafka, tmp_path: Path) -> None:
    at, topic = kafka.connection.bootstrap_servers, kafka.topic("games")
    project = Project(services=Services(simulator=SimulatorService(topic=topic, think_s=0)))
    console = Console(replace(settings_of(tmp_path, at), project=project), ["--bootstrap", at])
    ask = Asked(TestClient(make_app(console), base_url=ADDRESS, raise_server_exceptions=False))
    try:
        few = ask("POST", "/lab/simulator", {"players": 4}).json()
        until(lambda: bool(read_all(kafka.connection, topic)))
        more = ask("POST", "/lab/simulator", {"players": 6}).json()
        until(lambda: bool(ask("GET", "/lab/podium").json()["rows"]))
        state = ask("GET", "/lab/simulator").json()["state"]
    finally:
        stopped = ask("POST", "/lab/simulator/stop").json()

    assert {"players": 4, "think_s": 0.0, "servers": 1} == few["crowd"]
    assert (6, "running") == (more["crowd"]["players"], state)
    assert ("stopped", []) == (stopped["state"], processes_of(tmp_path))
