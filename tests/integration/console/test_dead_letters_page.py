"""Dead letters in a real browser: some are chosen and discarded; what somebody else has settled is left alone."""

from collections.abc import Iterator
from typing import Any

import pytest
from selenium.webdriver.common.by import By

from penstock.delivery.dead_envelope import ENVELOPE, enveloped
from penstock.delivery.ledger import Ledger
from penstock.delivery.selection import Filter, select
from penstock.kafka import topics
from penstock.kafka.producer import Producer
from penstock.kafka.topic_spec import TopicSpec
from penstock.record.formats import DEAD_LETTER

from conftest import RunningKafka, _skip_without
from support.browsers import NARROW, Browser, browsing_console, find_browser
from support.waiting import eventually, until

MARKUP = "<img src=x onerror=\"document.title='obeyed'\">"


@pytest.fixture(scope="module")
def browser(kafka: RunningKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    _skip_without(find_browser)
    with browsing_console(tmp_path_factory.mktemp("home"), kafka.connection.bootstrap_servers) as browser:
        yield browser


def _failed(kafka: RunningKafka, count: int) -> str:
    """Make a topic of dead letters; return their pipeline."""
    pipeline = kafka.topic("failed")
    topics.ensure(kafka.admin(), f"{pipeline}.dead", TopicSpec(partitions=1))
    said: dict[str, Any] = dict.fromkeys(ENVELOPE, 0)
    said |= {"pipeline": pipeline, "stage": "decode", "error": "ValueError", "sinks": "[]", "message": MARKUP}
    said |= {"topic": "orders", "line": "", "sink": "", "stub": "", "format": DEAD_LETTER}
    with Producer(kafka.connection) as producer:
        for offset in range(count):
            producer.send(f"{pipeline}.dead", MARKUP, headers=enveloped({**said, "offset": offset}))
    return pipeline


def _open(kafka: RunningKafka, pipeline: str) -> list[int]:
    return sorted(each.offset for each in select(kafka.connection, Filter(topic=f"{pipeline}.dead")))


def _choose(browser: Browser, offset: int) -> None:
    name = f"Choose orders/0 at {offset}"
    until(lambda: bool(browser.driver.find_elements(By.CSS_SELECTOR, f'[aria-label="{name}"]')))
    browser.press(f'[aria-label="{name}"]', " ")


def test_some_are_chosen_counted_and_discarded(browser: Browser, kafka: RunningKafka) -> None:
    pipeline = _failed(kafka, 5)
    browser.open(f"/dead-letters?pipeline={pipeline}")
    browser.shows("Discard all", "orders/0 at 4")
    for offset in (1, 3):
        _choose(browser, offset)
    browser.shows("Replay 2 chosen")
    browser.click("Discard 2 chosen")
    browser.shows("Discard 2 dead letters?")
    browser.click("Discard")
    browser.shows("2 letters discarded", "Discard all")
    browser.resize(NARROW)

    assert [0, 2, 4] == _open(kafka, pipeline)
    assert 0 == eventually(lambda: browser.overflow_px, lambda overflow_px: overflow_px == 0)
    assert [] == browser.complaints
    assert [] == browser.driver.find_elements(By.CSS_SELECTOR, "img[src=x]")


def test_one_that_is_shown_is_discarded(browser: Browser, kafka: RunningKafka) -> None:
    pipeline = _failed(kafka, 2)
    browser.open(f"/dead-letters?pipeline={pipeline}")
    browser.shows("orders/0 at 1")
    browser.click("orders/0 at 1")
    browser.shows("attempt 0", "Close")
    browser.click("Discard")
    browser.shows("Discard 1 dead letter?")
    browser.click("Discard")
    browser.shows("1 letter discarded")

    assert [0] == _open(kafka, pipeline)


def test_what_somebody_else_settled_meanwhile_is_said_and_nothing_is_done(
    browser: Browser, kafka: RunningKafka
) -> None:
    pipeline = _failed(kafka, 2)
    browser.open(f"/dead-letters?pipeline={pipeline}")
    browser.shows("orders/0 at 1")
    browser.click("Discard all")
    browser.shows("Discard 2 dead letters?")
    first = min(select(kafka.connection, Filter(topic=f"{pipeline}.dead")), key=lambda letter: letter.offset)
    Ledger(kafka.connection).discard([first])
    browser.click("Discard")
    browser.shows("1 dead letter is open by now, and not 2. Nothing was changed")

    assert [1] == _open(kafka, pipeline)
