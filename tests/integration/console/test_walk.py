"""The walk of a newcomer in a browser: from a new topic to the record that a landed row was made of."""

from pathlib import Path

import pytest

from conftest import RunningKafka, _skip_without
from support.browsers import Browser, browsing_console, find_browser

pytestmark = pytest.mark.soak
STARTED_S = 120.0
PIPELINE = """
name: {topic}
source: {{topics: [{topic}]}}
decode: {{type: json, schema: "id bigint NOT NULL, name string"}}
{expect}
sinks: [{{type: delta, path: {table}}}]
"""
EXPECT = "expect: [{name: it has a name, that: name IS NOT NULL, otherwise: dead_letter}]"


def send(browser: Browser, topic: str, value: str) -> None:
    browser.open(f"/topics/{topic}/messages")
    browser.click("Send a record")
    browser.write("Value", value)
    browser.click("Send")
    browser.shows("Every replica in sync has the record")


def test_from_a_new_topic_to_the_record_of_a_row(kafka: RunningKafka, tmp_path: Path) -> None:
    _skip_without(find_browser)
    topic, home, at = f"{kafka.topic('walk')}-made", tmp_path / ".penstock", kafka.connection.bootstrap_servers
    file, table = tmp_path / "orders.yaml", tmp_path / "tables" / "orders"
    file.write_text(PIPELINE.format(topic=topic, table=table, expect=EXPECT))
    project = tmp_path / "penstock.yaml"
    project.write_text(f"pipelines: {{{topic}: {{file: orders.yaml, speed: stream}}}}\n")
    with browsing_console(home, at, project) as browser:
        browser.open("/topics")
        browser.click("New topic")
        browser.write("Name", topic)
        browser.click("Create")
        browser.shows(f"Topic '{topic}' made")
        send(browser, topic, '{"id": 1, "name": "ada"}')
        browser.open("/pipelines")
        browser.click(topic)
        browser.shows("stopped", "This can run.")
        browser.click("Start")
        browser.shows(f"Pipeline '{topic}' is starting", timeout_s=STARTED_S)
        send(browser, topic, '{"id": 2}')
        browser.open("/dead-letters")
        browser.shows("1 open", "ExpectationFailed", timeout_s=STARTED_S)
        browser.open(f"/pipelines/{topic}")
        browser.click("Stop")
        browser.shows(f"Pipeline '{topic}' stopped", timeout_s=STARTED_S)

        file.write_text(PIPELINE.format(topic=topic, table=table, expect=""))
        browser.open("/dead-letters")
        browser.shows("1 open")
        browser.click("Replay all")
        browser.shows("Replay 1 dead letter?")
        browser.click("Replay")
        browser.shows("No dead letters", timeout_s=STARTED_S)
        browser.open("/tables/tables%2Forders")
        # A letter is claimed when its replay begins; its row is there when the replay is done.
        browser.shows(f"{topic}/0 at 0", f"{topic}/0 at 1", timeout_s=STARTED_S)
        browser.click(f"{topic}/0 at 1")
        browser.shows("Messages", '{"id": 2}')
