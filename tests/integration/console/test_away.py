"""A Kafka that goes away and comes back while somebody looks at the console: no page has to be loaded again."""

from pathlib import Path

from conftest import Cli, _skip_without
from support.browsers import browsing_console, find_browser


def test_a_kafka_that_goes_away_is_shown_as_such_and_comes_back_without_a_reload(cli: Cli, tmp_path: Path) -> None:
    _skip_without(find_browser)
    home = tmp_path / ".penstock"
    up = cli("up", "--port", "0", home=home)
    try:
        with browsing_console(home) as browser:
            browser.open("/topics")
            browser.shows("No topics here")
            browser.driver.execute_script("window.opened = 'once'")
            cli("down", home=home)
            browser.shows("Error", "Not known at the moment")
            cli("up", home=home)
            made = cli("topic", "create", "orders", home=home)
            browser.shows("orders", "in sync")
            text, opened = browser.text, browser.driver.execute_script("return window.opened")
            cli("down", home=home)
            browser.open("/nodes")
            browser.shows("No Kafka answers", "Not known at the moment")
            nodes = browser.text
            browser.open("/nodes/1")
            browser.shows("Not known at the moment")
            node = browser.text
            browser.open("/topics/orders/messages")
            browser.shows("no Kafka answers", "Not known at the moment")
            messages = browser.text
    finally:
        cli("down", home=home)

    assert (0, 0) == (up.code, made.code)
    assert "Error" not in text
    assert ("Every partition has" in nodes, "Every setting is" in node) == (False, False)
    assert "No records here" not in messages
    assert "once" == opened
