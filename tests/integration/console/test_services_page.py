"""Schemas and connectors by clicking, on a real registry and a real Connect; and a console that gives no files away."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from penstock.config.local_services import ServiceAddress
from penstock.connect.client import ConnectClient
from penstock.kafka.reader import read_all
from penstock.schemas.client import RegistryClient
from penstock.schemas.registry import Registry
from penstock.schemas.schema import Schema

from conftest import RunningKafka, _skip_without
from support.browsers import Browser, browsing_console, find_browser
from support.waiting import until

SUBJECT = "clicked-value"
AS_TEXT = "org.apache.kafka.connect.storage.StringConverter"
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


@pytest.fixture(scope="module")
def browser(
    kafka: RunningKafka, registry: ServiceAddress, connect: ServiceAddress, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    """A console in the home of `connect`, which is where it finds the login."""
    _skip_without(find_browser)
    assert connect.url
    project = tmp_path_factory.mktemp("project") / "penstock.yaml"
    project.write_text(f"registry: {registry.url}\n")
    servers = kafka.connection.bootstrap_servers
    with browsing_console(kafka.home, servers, project, "--no-downloads") as browser:
        yield browser


def written(*fields: str) -> Schema:
    listed = ", ".join(f'{{"name": "{each}", "type": "string", "default": ""}}' for each in fields)
    return Schema(format="AVRO", text=f'{{"type": "record", "name": "Order", "fields": [{listed}]}}')


def test_what_new_versions_must_be_compatible_with_is_changed(browser: Browser, registry: ServiceAddress) -> None:
    client = RegistryClient(Registry(url=registry.url))
    client.register(SUBJECT, written("id"))
    client.register(SUBJECT, written("id", "note"))
    before = client.compatibility(SUBJECT)
    browser.open("/schemas")
    browser.write("Search subjects", SUBJECT)
    browser.click(SUBJECT)
    browser.shows("2 of 2", "Compatibility (the registry's)", '+      "name": "note"')
    browser.click("Compatibility")
    browser.shows("What a new version must be compatible with")
    browser.click_field("Compatibility")
    browser.click("full transitive")
    browser.click("Change")
    browser.shows(f"New versions of '{SUBJECT}': full transitive")
    until(lambda: "Compatibility (the registry's)" not in browser.text)

    assert [("BACKWARD", False), ("FULL_TRANSITIVE", True)] == [before, client.compatibility(SUBJECT)]
    assert [] == browser.complaints


def test_a_connector_is_paused_resumed_and_started_again(
    browser: Browser, connect: ServiceAddress, kafka: RunningKafka, tmp_path: Path
) -> None:
    topic, lines, client = kafka.topic("lines"), tmp_path / "lines.txt", ConnectClient(connect)
    lines.write_text("one\n")

    def values() -> list[bytes | None]:
        return [each.value() for each in read_all(kafka.connection, topic)]

    source = {"connector.class": FILE_SOURCE, "file": str(lines), "topic": topic, "value.converter": AS_TEXT}
    client.put(topic, source)
    try:
        until(lambda: len(values()) == 1)
        browser.open("/connectors")
        browser.click(topic)
        browser.click("Pause")
        browser.shows(f"Pause of '{topic}': accepted")
        browser.shows("paused")
        until(lambda: {each.state for each in client.tasks(topic)} == {"PAUSED"})
        with lines.open("a") as file:
            file.write("two\n")
        # Started again while it is paused: the task is another one, and reads nothing either.
        browser.click("Restart")
        browser.shows(f"Task 0 of '{topic}' is started again")
        browser.press(".tools button:last-child", Keys.ENTER)
        browser.shows(f"Restart of '{topic}': accepted")
        until(lambda: {each.state for each in client.tasks(topic)} == {"PAUSED"})
        while_paused = values()
        browser.click("Resume")
        browser.shows(f"Resume of '{topic}': accepted")
        browser.shows("running")
        until(lambda: len(values()) == 2)
        complaints = browser.complaints
    finally:
        client.remove(topic)

    assert ([b"one"], [b"one", b"two"], []) == (while_paused, values(), complaints)


def test_how_often_a_connector_failed_and_was_started_again_is_shown(
    browser: Browser, connect: ServiceAddress, kafka: RunningKafka, tmp_path: Path
) -> None:
    topic, client = kafka.topic("written"), ConnectClient(connect)
    client.put(topic, {"connector.class": FILE_SINK, "file": str(tmp_path / "none" / "out.txt"), "topics": topic})
    try:
        browser.open("/")
        browser.shows(f"Connector '{topic}' has failed: ", "NoSuchFileException")
        browser.open("/connectors")
        browser.shows("Restarts", "Couldn't find or create file")
        browser.click(topic)
        browser.shows("Restarts", "Failed last at", "NoSuchFileException")
        until(lambda: re.search(r"[1-9]\d*\nRestarts", browser.text) is not None)
        complaints = browser.complaints
    finally:
        client.remove(topic)

    assert [] == complaints


def test_a_console_that_gives_no_files_away_offers_none(browser: Browser, kafka: RunningKafka) -> None:
    topic = kafka.topic("kept")
    browser.open(f"/topics/{topic}/messages")
    browser.shows("No records here", "Send a record")
    links = [each.text for each in browser.driver.find_elements(By.CSS_SELECTOR, "a")]
    browser.open(f"/api/v1/topics/{topic}/messages/download")
    browser.shows("does not offer records as files")

    assert "Download" not in links
