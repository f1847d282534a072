"""Users, rules and quotas changed by clicking, favourites, and another cluster chosen: on a secure Kafka."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from penstock.kafka import acls, users

from conftest import RunningKafka, _skip_without
from support.browsers import NARROW, Browser, browsing_console, find_browser
from support.waiting import until

pytestmark = pytest.mark.soak
WORD = "canary Password 7"
QUOTA_S = 60.0
# Asked in one step: an element that was found first may be drawn again before it is clicked.
ROW = "[...document.querySelectorAll('tr')].find(e => e.innerText.includes('New password'))"
REMOVE = f"{ROW}.querySelector('.bad').click()"
STAR = "return document.querySelector('[aria-label=\"Favourite {topic}\"]'){do}"
LISTED = "return [...document.querySelectorAll('tbody td a')].map(e => e.innerText)"
SORT = "[...document.querySelectorAll('th')].find(e => e.innerText.startsWith('Topic')).click()"
IS_SORTED = "return document.querySelector('th.sorted') !== null"


def run(browser: Browser, script: str) -> Any:
    return browser.driver.execute_script(script)


@pytest.fixture(scope="module")
def browser(
    kafka: RunningKafka, secure_kafka: RunningKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    _skip_without(find_browser)
    project = tmp_path_factory.mktemp("project") / "penstock.yaml"
    servers = kafka.connection.bootstrap_servers
    project.write_text(f'clusters: {{open: {{bootstrap_servers: "{servers}"}}}}\n')
    with browsing_console(secure_kafka.home, project=project) as browser:
        yield browser


def test_a_user_is_added_allowed_slowed_down_and_removed_by_clicking(
    browser: Browser, secure_kafka: RunningKafka
) -> None:
    admin = secure_kafka.admin()
    browser.open("/access")
    browser.shows("Add a user", "Allow something", "Set a quota", "Penstock's own")
    browser.click("Add a user")
    browser.write("User", "clicked")
    browser.write("Password", WORD)
    browser.write("Password again", "another")
    browser.click("Add")
    browser.shows("The two passwords differ")
    missing = "clicked" not in {each.user for each in users.list_users(admin)}
    browser.write("Password again", Keys.BACKSPACE * len("another"), WORD)
    browser.click("Add")
    browser.shows("User 'clicked' added")

    assert missing
    assert "clicked" in {each.user for each in users.list_users(admin)}

    browser.click("Allow something")
    browser.write("User", "clicked")
    browser.write("Topics", "orders*, <b>returns</b>")
    browser.click("Show the plan")
    browser.shows("is added", "<b>returns</b>")
    planned = acls.list_acls(admin, "clicked")
    browser.click("Allow")
    browser.shows("The rules are added")

    assert ([], 4) == (planned, len(acls.list_acls(admin, "clicked")))

    browser.click("Set a quota")
    browser.write("User", "clicked")
    browser.write("May write, kB a second", "512")
    browser.click("Set")
    browser.shows("The quota is set", "512 kB/s", timeout_s=QUOTA_S)
    browser.write("Search users", "clicked")
    browser.shows("1 to 1 of 1")
    run(browser, REMOVE)
    browser.shows("access rules: 4")
    browser.write("Type clicked to confirm", "clicked")
    browser.click("Remove")
    browser.shows("User 'clicked' removed")

    assert "clicked" not in {each.user for each in users.list_users(admin)}
    assert [] == acls.list_acls(admin, "clicked")
    assert WORD not in browser.driver.page_source


def test_a_favourite_stays_first_after_a_reload_and_when_sorted(browser: Browser, secure_kafka: RunningKafka) -> None:
    first, last = secure_kafka.topic("a-topic"), secure_kafka.topic("z-topic")
    browser.open("/topics")
    browser.shows(first, last)
    run(browser, STAR.format(topic=last, do=".click()"))
    until(lambda: run(browser, STAR.format(topic=last, do=".ariaPressed")) == "true")
    browser.open("/topics")
    browser.shows(first, last)
    reloaded = run(browser, LISTED)
    run(browser, SORT)
    until(lambda: run(browser, IS_SORTED))

    assert (last, last) == (reloaded[0], run(browser, LISTED)[0])


def test_another_cluster_is_chosen_at_the_top_and_stays_chosen(browser: Browser, kafka: RunningKafka) -> None:
    topic = kafka.topic("chosen")
    browser.open("/topics")
    browser.shows("This project's")
    browser.driver.find_element(By.CSS_SELECTOR, ".clusters").click()
    browser.click("open")
    until(lambda: browser.driver.current_url.endswith("/topics?cluster=open"))
    browser.write("Search topics", topic)
    browser.shows(topic)
    browser.click(topic)
    browser.shows("First offset", topic)
    of_topic = browser.driver.current_url
    browser.click("Messages")
    browser.shows("No records here")
    browser.click("Pipelines")
    browser.shows("This page belongs to the project, and shows its own cluster, not open.")
    wide = browser.overflow_px
    browser.resize(NARROW)

    assert of_topic.endswith(f"/topics/{topic}?cluster=open")
    assert (0, 0, []) == (wide, browser.overflow_px, browser.complaints)


def test_a_cluster_that_is_not_secure_says_why_there_is_nothing_to_change(kafka: RunningKafka, tmp_path: Path) -> None:
    with browsing_console(tmp_path, kafka.connection.bootstrap_servers) as browser:
        browser.open("/access")
        browser.shows("Users of an external cluster are made where it is run", "it is not secure, so everybody may")

        assert "Allow something" not in browser.text
