"""A landed table by clicking: its rows as they were in an older version, and a link that says which."""

from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from selenium.webdriver.common.by import By

from conftest import RunningKafka, _skip_without
from support.browsers import Browser, browsing_console, find_browser
from support.waiting import until


def rows(browser: Browser) -> list[str]:
    script = "return [...arguments[0].querySelectorAll('tbody tr')].map(each => each.innerText)"
    tables = browser.driver.find_elements(By.CSS_SELECTOR, ".q-table")
    return [str(each) for each in browser.driver.execute_script(script, tables[0])] if tables else []


def test_rows_of_an_older_version_are_shown_when_it_is_chosen(kafka: RunningKafka, tmp_path: Path) -> None:
    _skip_without(find_browser)
    folder = tmp_path / "tables" / "orders"
    write_deltalake(folder, pa.table({"name": ["ada"]}))
    write_deltalake(folder, pa.table({"name": ["bob"]}), mode="append")
    with browsing_console(tmp_path / ".penstock", kafka.connection.bootstrap_servers) as browser:
        browser.open("/tables/tables%2Forders")
        until(lambda: {"ada", "bob"} == set(rows(browser)))
        browser.click_field("Version")
        browser.shows("Newest version", "Version 0, ")
        browser.driver.find_elements(By.CSS_SELECTOR, ".q-menu .q-item")[-1].click()
        until(lambda: ["ada"] == rows(browser))
        shared = browser.driver.current_url.removeprefix(browser.address)
        browser.open(shared)
        until(lambda: ["ada"] == rows(browser))
        complaints = browser.complaints

    assert ("/tables/tables%2Forders?version=0", []) == (shared, complaints)
