"""The lab in a browser: a drill and a scenario on clusters of their own, games into the project's."""

import re
from pathlib import Path

import psutil
import pytest
from selenium.webdriver.common.keys import Keys

from penstock.console import audit
from penstock.kafka import topics
from penstock.kafka.reader import read_all
from penstock.services.simulator import crowd_of

from conftest import RunningKafka, _skip_without
from support.browsers import NARROW, Browser, browsing_console, find_browser
from support.waiting import eventually, until

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
        browser.click_field("Start keys")
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


@pytest.mark.soak
def test_a_scenario_is_scaled_while_it_runs(kafka: RunningKafka, tmp_path: Path) -> None:
    _skip_without(find_browser)
    with browsing_console(tmp_path, kafka.connection.bootstrap_servers) as browser:
        browser.open("/lab")
        browser.click_field("Start players")
        browser.shows("Start players")
        browser.write("Players", "4")
        browser.write("Games", "60")
        browser.click("Start")
        browser.shows("players (scenario)", "Its cluster", "superhero.combat", timeout_s=DONE_S)
        for name, wanted in {"Players": "6", "Workers": "2"}.items():
            browser.write(name, Keys.BACKSPACE * 2, wanted)
        browser.click("Scale")
        browser.shows("Accepted: it changes in a moment")
        browser.shows("as it should be", "players in the end", "after change 1", timeout_s=2 * DONE_S)
        said, complaints = browser.text, browser.complaints

    assert re.search(r"players in the end\s+6\b", said), said
    assert re.search(r"after change 1\s+2\b", said), said
    assert [] == complaints
    assert [] == processes_of(tmp_path / "console" / "lab")


def test_games_are_played_into_the_project_scaled_and_stopped(kafka: RunningKafka, tmp_path: Path) -> None:
    _skip_without(find_browser)
    topic, home = kafka.topic("games"), tmp_path / ".penstock"
    project = tmp_path / "penstock.yaml"
    project.write_text(f"services: {{simulator: {{topic: {topic}, think_s: 0}}}}\n")
    with browsing_console(home, kafka.connection.bootstrap_servers, project) as browser:
        browser.open("/lab")
        browser.shows("No game has ended yet")
        _play(browser, "Start the games", 4)
        few = eventually(lambda: crowd_of(home))
        until(lambda: bool(read_all(kafka.connection, topic)))
        _play(browser, "Change the players", 6)
        more = eventually(lambda: crowd_of(home), lambda crowd: crowd != few)
        until(lambda: "No game has ended yet" not in browser.text)
        browser.click("Stop the games")
        browser.shows("The games are stopped", "Start the games")
        complaints = browser.complaints

    assert few is not None
    assert more is not None
    assert ([4, 6], [0.0, 0.0], []) == ([few.players, more.players], [few.think_s, more.think_s], complaints)
    assert [] == processes_of(tmp_path)


def _play(browser: Browser, button: str, players: int) -> None:
    browser.click(button)
    browser.write("Players", Keys.BACKSPACE * 4, str(players))
    browser.click("Start")
    browser.shows(f"{players} players are starting", "Change the players")
    until(lambda: "Bots play into the topic" not in browser.text)
