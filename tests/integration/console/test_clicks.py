"""What is done to a topic, its records and its groups by clicking, each looked up on the broker afterwards."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from penstock.errors import NotFound
from penstock.kafka import groups, topics
from penstock.kafka.producer import Producer
from penstock.kafka.reader import read_all

from conftest import RunningKafka, _skip_without
from support.browsers import Browser, browsing_console, find_browser
from support.waiting import until

MANY = 300_000  # decoding them one by one takes seconds, which is long enough to click in


@pytest.fixture(scope="module")
def browser(kafka: RunningKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    _skip_without(find_browser)
    with browsing_console(tmp_path_factory.mktemp("home"), kafka.connection.bootstrap_servers) as browser:
        yield browser


def filled(kafka: RunningKafka, name: str, count: int) -> str:
    topic = kafka.topic(name)
    with Producer(kafka.connection) as producer:
        for number in range(count):
            producer.send(topic, b'{"id": %d}' % number)
    return topic


def values(kafka: RunningKafka, topic: str) -> list[bytes | None]:
    return [each.value() for each in read_all(kafka.connection, topic)]


def change(browser: Browser, topic: str, what: str) -> None:
    browser.open(f"/topics/{topic}")
    browser.shows("Change", "Kept for")
    browser.click("Change")
    browser.click(what)


def test_a_topic_is_kept_for_less_grown_and_purged(browser: Browser, kafka: RunningKafka) -> None:
    topic = filled(kafka, "changed", 3)
    change(browser, topic, "Retention")
    browser.write("Kept for", "2d")
    browser.write(f"Type {topic} to confirm", topic)
    browser.click("Change")
    browser.shows(f"Topic '{topic}' changed", "2 d")
    change(browser, topic, "Add partitions")
    browser.write("Partitions in all", "4")
    browser.click("Add")
    browser.shows(f"Topic '{topic}' has 4 partitions")
    change(browser, topic, "Purge records")
    browser.shows("3 records at most")
    browser.write("Partition", "0")
    browser.write("Only before offset", "2")
    browser.shows("2 records at most")
    browser.write(f"Type {topic} to confirm", topic)
    browser.click("Purge")
    browser.shows("Purge records: done")
    left = values(kafka, topic)
    change(browser, topic, "Purge records")
    browser.shows("1 record at most")
    browser.write(f"Type {topic} to confirm", topic)
    browser.click("Purge")
    browser.shows("Purge records: done")

    retention, is_own = topics.config(kafka.admin(), topic)["retention.ms"]
    assert ("172800000", True, 4) == (retention, is_own, topics.partition_count(kafka.admin(), topic))
    assert ([b'{"id": 2}'], []) == (left, values(kafka, topic))
    assert [] == browser.complaints


def test_a_double_click_does_it_once(browser: Browser, kafka: RunningKafka) -> None:
    topic = f"{kafka.topic('twice')}-made"
    browser.open("/topics")
    browser.click("New topic")
    browser.write("Name", topic)
    browser.double_click("Create")
    browser.shows(f"Topic '{topic}' made")
    until(lambda: "Create" not in browser.text)
    made = browser.text
    browser.open(f"/topics/{topic}/messages")
    browser.click("Send a record")
    browser.write("Value", "once")
    browser.double_click("Send")
    browser.shows("Every replica in sync has the record")
    until(lambda: "a tombstone" not in browser.text)
    browser.click("Send a record")
    browser.write("Value", "and another")
    browser.click("Send")
    until(lambda: b"and another" in values(kafka, topic))

    assert [b"and another", b"once"] == sorted(values(kafka, topic), key=str)
    assert "already" not in made
    assert [] == browser.complaints


def test_a_record_is_copied_and_what_arrives_is_watched(browser: Browser, kafka: RunningKafka) -> None:
    topic, other = filled(kafka, "watched", 1), kafka.topic("copied-to")
    browser.open(f"/topics/{topic}/messages")
    browser.shows('{"id": 0}')
    browser.press("tr[tabindex]", Keys.ENTER)
    browser.click("Copy to a topic")
    browser.write("To the topic", Keys.BACKSPACE * len(topic), other)
    browser.click("Copy")
    browser.shows(f"Topic '{other}' has the record")
    until(lambda: "Copy the record" not in browser.text)
    browser.click("Watch live")
    browser.shows("Waiting for records", "Stop watching")
    with Producer(kafka.connection) as producer:
        producer.send(topic, b'{"id": 7}')
    browser.shows("The newest 1 record", '{"id": 7}')
    browser.click("Stop watching")
    browser.shows("Watch live")

    assert [b'{"id": 0}'] == values(kafka, other)


def test_a_long_search_is_cancelled_and_keeps_what_it_has_found(browser: Browser, kafka: RunningKafka) -> None:
    topic = filled(kafka, "searched", MANY)
    browser.open(f"/topics/{topic}/messages")
    browser.click_field("Search in")
    browser.click("JSON field = text")
    browser.write("Search the whole topic", "id = 1", Keys.ENTER)
    browser.shows("1 found in", "running")
    browser.click("Cancel")
    browser.shows("1 found in", "cancelled")
    told = browser.text.partition("1 found in ")[2].split(" ", 1)[0]

    assert 0 < int(told.replace(",", "")) < MANY
    assert [] == browser.complaints


def test_records_are_downloaded_as_they_are(browser: Browser, kafka: RunningKafka, tmp_path: Path) -> None:
    topic = filled(kafka, "downloaded", 3)
    browser.driver.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    browser.open(f"/topics/{topic}/messages")
    browser.shows('{"id": 2}')
    browser.click("Download")
    browser.write("From", Keys.BACKSPACE * len("earliest"), "soon")
    browser.click("Download the file")
    browser.shows("'soon' is not a position in a topic")
    browser.write("From", Keys.BACKSPACE * len("soon"), "1")
    browser.click("Download the file")
    file = tmp_path / f"{topic}.jsonl"
    until(file.exists)
    lines = [json.loads(line) for line in file.read_text().splitlines()]

    assert [(number, f'{{"id": {number}}}') for number in (1, 2)] == [
        (each["offset"], each["value"]["text"]) for each in lines
    ]


def test_a_setting_is_changed_and_given_back_to_the_cluster(browser: Browser, kafka: RunningKafka) -> None:
    topic = kafka.topic("set")
    seen = []
    for value in ("1000", Keys.BACKSPACE * len("1000")):
        change(browser, topic, "Another setting")
        browser.write("Setting", "segment.jit")
        browser.click("segment.jitter.ms")
        browser.write("Value", *([Keys.BACKSPACE] if value == "1000" else []), value)
        browser.write(f"Type {topic} to confirm", topic)
        browser.click("Change")
        browser.shows(f"Topic '{topic}' changed")
        seen.append(topics.config(kafka.admin(), topic)["segment.jitter.ms"])

    assert [("1000", True), ("0", False)] == seen
    assert [] == browser.complaints


def test_a_record_is_sent_with_headers_and_a_tombstone_without_a_value(browser: Browser, kafka: RunningKafka) -> None:
    topic = kafka.topic("headed")
    browser.open(f"/topics/{topic}/messages")
    browser.click("Send a record")
    browser.write("Key", "k")
    browser.write("Value", "v")
    browser.write("Headers", "trace: a:b", Keys.ENTER, "empty:")
    browser.click("Send")
    browser.shows("1 record")
    browser.click("Send a record")
    browser.write("Key", "k")
    browser.press(".q-dialog .q-checkbox", " ")
    browser.click("Send")
    browser.shows("2 records")
    first, second = read_all(kafka.connection, topic)

    assert (b"k", b"v", [("trace", b"a:b"), ("empty", b"")]) == (first.key(), first.value(), first.headers())
    assert (b"k", None, None) == (second.key(), second.value(), second.headers())


def test_more_records_than_at_first_are_shown_when_asked_for(browser: Browser, kafka: RunningKafka) -> None:
    topic = filled(kafka, "more", 120)
    browser.open(f"/topics/{topic}/messages")
    browser.shows("50 records, and more", '{"id": 119}')
    browser.click_field("How many")
    browser.click("200 records")
    browser.click("Show")
    browser.shows("1-50 of 120")
    until(lambda: "and more" not in browser.text)
    browser.open(browser.driver.current_url.removeprefix(browser.address))
    browser.shows("120 records", "1-50 of 120")


def test_what_is_shown_is_in_the_address_and_times_are_those_of_the_reader(
    browser: Browser, kafka: RunningKafka
) -> None:
    topic, noon_s = kafka.topic("shared"), 1_769_860_800  # 2026-01-31T12:00Z
    with Producer(kafka.connection) as producer:
        for minutes in range(-1, 3):
            producer.send(topic, f"minute {minutes}", timestamp_ms=(noon_s + 60 * minutes) * 1000)
    browser.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})
    try:
        browser.open(f"/topics/{topic}/messages")
        browser.shows("minute -1", "2026-01-31 20:59:00")
        browser.click_field("Where to begin")
        browser.click("From time")
        browser.write("2026-01-31T12:00 or 15m", "2026-01-31T21:01", Keys.ENTER)
        browser.shows("2 records", "2026-01-31 21:01:00")
        shared = browser.driver.current_url.removeprefix(browser.address)
        browser.write("Search the whole topic", "minute 2", Keys.ENTER)
        browser.shows("1 found in")
        searched = browser.driver.current_url.removeprefix(browser.address)
        browser.open(shared)
        browser.shows("2 records", "minute 1", "minute 2")
        again = browser.text
        browser.open(searched)
        browser.shows("1 found in", "minute 2")
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})

    assert "minute 0" not in again
    assert "minute 1" not in browser.text


def test_a_group_is_deleted_when_its_name_is_typed(browser: Browser, kafka: RunningKafka) -> None:
    topic = filled(kafka, "read", 2)
    groups.commit(kafka.admin(), topic, {(topic, 0): 2})
    browser.open(f"/groups/{topic}")
    browser.shows("Nobody is in it now")
    browser.click("Delete")
    browser.write(f"Type {topic} to confirm", topic)
    browser.click("Delete")
    until(lambda: browser.driver.current_url.endswith("/groups"))

    with pytest.raises(NotFound):
        groups.describe(kafka.admin(), topic)
