"""The pages of a console in a real browser, over a real broker: one browser and one console for all."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from penstock.console.pages.frame import THEME_COOKIE
from penstock.errors import NotFound
from penstock.kafka import groups, topics
from penstock.kafka.producer import Producer
from penstock.kafka.reader import read_all

from conftest import RunningKafka, _skip_without
from support.browsers import NARROW, Browser, browsing_console, find_browser
from support.waiting import eventually, until

MARKUP = "<img src=x onerror=\"document.title='obeyed'\">"


@pytest.fixture(scope="module")
def browser(kafka: RunningKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    _skip_without(find_browser)
    with browsing_console(tmp_path_factory.mktemp("home"), kafka.connection.bootstrap_servers) as browser:
        yield browser


def test_every_page_loads_without_a_complaint_of_the_browser_and_fits_wide_and_narrow_windows(
    browser: Browser, kafka: RunningKafka
) -> None:
    topic = kafka.topic("pages")
    groups.commit(kafka.admin(), topic, {(topic, 0): 0})
    pages = {
        "/": ("Overview", "Nodes up"),
        "/topics": ("Topics", topic),
        f"/topics/{topic}": (topic, "First offset"),
        f"/topics/{topic}/messages": ("Messages", "No records here"),
        "/groups": ("Groups", "Protocol"),
        f"/groups/{topic}": (topic, "Nobody is in it now"),
        "/pipelines": ("Pipelines", "No pipeline has run here"),
        "/dead-letters": ("Dead letters", " open"),
        "/tables": ("Tables", "No tables yet"),
        "/lineage": ("Lineage", "lineage.db"),
        "/schemas": ("Schemas", "No schema registry is named"),
        "/connectors": ("Connectors", "This project has no Kafka Connect"),
        "/access": ("Access", "Who did what"),
        "/nodes": ("Nodes", "Every partition has a leader"),
        "/nodes/1": ("Node 1", "log.dirs"),
        "/lab": ("Lab", "Nothing was started yet", "kill-broker", "No game has ended yet"),
        "/lab/runs/0": ("Run", "There is no run"),
    }
    seen = {}
    for path, words in pages.items():
        browser.open(path)
        if path == "/topics":
            browser.write("Search topics", topic)
        browser.shows(*words)
        wide = browser.overflow_px
        browser.resize(NARROW)
        # A chart takes its new width a moment later.
        narrow = eventually(lambda: browser.overflow_px, lambda overflow_px: overflow_px == 0)
        seen[path] = (browser.complaints, wide, narrow)

    assert dict.fromkeys(pages, ([], 0, 0)) == seen


def test_a_topic_is_made_by_clicking_and_deleted_when_its_name_is_typed(browser: Browser, kafka: RunningKafka) -> None:
    name = f"{kafka.topic('clicked')}.made"
    browser.open("/topics")
    browser.shows("New topic")
    browser.click("New topic")
    browser.write("Name", name)
    browser.write("Partitions", Keys.BACKSPACE, "3")
    browser.click("Create")
    browser.shows(f"Topic '{name}' made")

    assert 3 == topics.partition_count(kafka.admin(), name)

    browser.open(f"/topics/{name}")
    browser.shows("Change", "Kept for")
    browser.click("Change")
    browser.click("Delete topic")
    browser.shows("0 records at most")
    browser.write(f"Type {name} to confirm", "another")
    browser.click("Delete")
    browser.shows("to confirm. Nothing was changed")

    assert 3 == topics.partition_count(kafka.admin(), name)

    browser.write(f"Type {name} to confirm", Keys.BACKSPACE * len("another"), name)
    browser.click("Delete")

    def is_gone() -> bool:
        try:
            return topics.partition_count(kafka.admin(), name) == 0
        except NotFound:
            return True

    until(is_gone)


def test_records_are_sent_searched_and_shown_as_text_whatever_is_in_them(browser: Browser, kafka: RunningKafka) -> None:
    topic = kafka.topic("markup")
    with Producer(kafka.connection) as producer:
        producer.send(topic, MARKUP, key=MARKUP, headers=[(MARKUP, MARKUP)])
    browser.open(f"/topics/{topic}/messages")
    browser.shows(MARKUP)
    browser.click("Send a record")
    browser.write("Value", '{"id": 7}')
    browser.click("Send")
    browser.shows("Every replica in sync has the record")
    browser.write("Search the whole topic", "onerror", Keys.ENTER)
    browser.shows("1 found in 2 of 2 records, done")
    browser.press("tr[tabindex]", Keys.ENTER)
    browser.shows(f"{MARKUP}: {MARKUP}")

    assert [MARKUP.encode(), b'{"id": 7}'] == [each.value() for each in read_all(kafka.connection, topic)]
    assert "obeyed" not in browser.driver.title
    assert [] == browser.driver.find_elements(By.CSS_SELECTOR, "img[src=x]")


def test_a_group_is_moved_by_clicking_once_its_plan_was_shown(browser: Browser, kafka: RunningKafka) -> None:
    topic = kafka.topic("moved", partitions=2)
    with Producer(kafka.connection) as producer:
        for number in range(6):
            producer.send(topic, "{}", partition=number % 2)
    groups.commit(kafka.admin(), topic, {(topic, 0): 3, (topic, 1): 3})
    browser.open(f"/groups/{topic}")
    browser.shows("Move", "Nobody is in it now")
    browser.click("Move")
    browser.write("To", "earliest")
    browser.click("Show the plan")
    browser.shows("reads again")
    # A plan of something else is none.
    browser.write("Partition", "1")
    until(lambda: "reads again" not in browser.text)
    browser.click("Show the plan")
    browser.shows("reads again")

    assert {(topic, 0): 3, (topic, 1): 3} == groups.committed(kafka.admin(), topic)

    browser.click("Move")
    browser.shows(f"Group '{topic}' moved")

    assert {(topic, 0): 3, (topic, 1): 0} == groups.committed(kafka.admin(), topic)


def test_the_theme_is_kept(browser: Browser) -> None:
    browser.open("/")
    browser.shows("Overview")

    def is_dark() -> bool:
        return "body--dark" in str(browser.driver.find_element(By.TAG_NAME, "body").get_attribute("class"))

    before = is_dark()
    browser.click_field("Light or dark")
    until(lambda: is_dark() is not before)
    browser.open("/topics")
    browser.shows("Topics")
    until(lambda: is_dark() is not before)


def test_a_dark_system_is_followed_until_the_other_theme_is_chosen(browser: Browser) -> None:
    def look() -> tuple[str, str]:
        colour = "return getComputedStyle(document.body).backgroundColor"
        of_scrollbars = "return getComputedStyle(document.documentElement).colorScheme"
        return str(browser.driver.execute_script(colour)), str(browser.driver.execute_script(of_scrollbars))

    light_look, dark_look = ("rgb(247, 247, 248)", "light"), ("rgb(19, 21, 25)", "dark")

    browser.driver.delete_cookie(THEME_COOKIE)
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    try:
        browser.open("/sign-in")
        until(lambda: look() == dark_look)
        browser.open("/nodes")
        browser.shows("Every partition has a leader")
        until(lambda: look() == dark_look)
        browser.field("Light or dark").click()
        until(lambda: look() == light_look)
        until(lambda: browser.driver.get_cookie(THEME_COOKIE) is not None)
        browser.open("/sign-in")
        until(lambda: look() == light_look)
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_what_closes_a_complaint_is_as_readable_as_its_words(browser: Browser) -> None:
    browser.open("/pipelines/nosuch")
    browser.shows("Close")
    script = "return getComputedStyle(document.querySelector(arguments[0])).color"
    words, button = (browser.driver.execute_script(script, f".q-notification{each}") for each in ("", " .q-btn"))

    assert words == button


def test_a_tab_is_named_after_what_it_shows(browser: Browser, kafka: RunningKafka) -> None:
    topic, group = kafka.topic("named"), f"</title>{MARKUP}"
    groups.commit(kafka.admin(), group, {(topic, 0): 0})

    browser.open(f"/topics/{topic}/messages")
    until(lambda: browser.driver.title == f"{topic} · Messages · Penstock")
    browser.open(f"/groups/{quote(group, safe='')}")
    until(lambda: browser.driver.title == f"{group} · Group · Penstock")

    assert [] == browser.driver.find_elements(By.CSS_SELECTOR, "img[src=x]")


def test_whoever_signs_out_by_clicking_is_sent_to_the_sign_in(browser: Browser) -> None:
    browser.open("/")
    browser.shows("Overview")
    browser.click("Sign out")
    until(lambda: browser.driver.current_url.endswith("/sign-in"))
    browser.open("/topics")
    until(lambda: browser.driver.current_url == f"{browser.address}/sign-in")
    browser.sign_in()
