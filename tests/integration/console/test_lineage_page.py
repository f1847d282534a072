"""The lists of lineage in a real browser: from a job to its run, its operation, that one's SQL, and back."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from penstock.lineage.sign_in.passwords import UsersFile
from penstock.lineage.store.address import StoreAddress, default_path
from penstock.lineage.store.database import migrate

from conftest import _skip_without
from support.browsers import NARROW, Browser, browsing_console, find_browser
from support.consoles import PASSWORD
from support.lineage_samples import ALL, SPARK_JOB, TASK, event, facet
from support.lineage_stories import write_in_batches
from support.waiting import eventually, until

UNREACHABLE = "127.0.0.1:1"
MARKUP = "<img src=x onerror=\"document.title='obeyed'\">"
SINCE = "2025-01-01"
MANY = 60


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    _skip_without(find_browser)
    home = tmp_path_factory.mktemp("home")
    _fill(home)
    UsersFile.of(home / "lineage").put("etl", PASSWORD)
    with browsing_console(home, UNREACHABLE) as browser:
        yield browser


def _fill(home: Path) -> None:
    path = default_path(home)
    path.parent.mkdir(parents=True)
    address = StoreAddress(store=str(path))
    migrate(address)
    told = [each for story in ALL.values() for each in story]
    for number in range(MANY):
        run, job = f"01950000-0000-7000-8000-0000000000{number:02}", (f"many://{MARKUP}", f"z {MARKUP} {number:02}")
        sql = {"sql": facet(query=f"SELECT '{MARKUP}'")}
        table = {
            "namespace": "postgres://db:5432",
            "name": MARKUP,
            "facets": {"schema": facet(fields=[{"name": MARKUP}])},
        }
        told.append(event("COMPLETE", "2025-02-13T12:00:00Z", run, job, job_facets=sql, outputs=[table]))
    write_in_batches(address, [json.dumps(each).encode() for each in told], 1_000)


def test_every_list_loads_without_a_complaint_and_fits_wide_and_narrow_windows(browser: Browser) -> None:
    pages = {
        "/lineage": "orders.raw",
        "/lineage?list=jobs": TASK,
        f"/lineage?list=runs&since={SINCE}": "failed",
        "/lineage?list=runs&state=FAILED": "No runs in this time",
        "/lineage?list=locations": "kafka://broker-1:9092",
        "/lineage?list=all": "Search for a part of a name",
        "/lineage?list=tokens": "No tokens",
        "/lineage?of=dataset:7000": "There is no dataset 7000",
    }
    seen = {}
    for path, words in pages.items():
        browser.open(path)
        browser.shows(words)
        wide = browser.overflow_px
        browser.resize(NARROW)
        seen[path] = (browser.complaints, wide, eventually(lambda: browser.overflow_px, lambda pixels: pixels == 0))

    assert dict.fromkeys(pages, ([], 0, 0)) == seen


def test_a_graph_that_is_not_there_does_not_stay_loading(browser: Browser) -> None:
    browser.open("/lineage?of=dataset:7000")
    browser.shows("There is no dataset 7000")

    until(lambda: "Loading" not in browser.text)


def test_a_graph_ends_at_a_time_that_is_chosen_and_the_address_says_which(browser: Browser) -> None:
    browser.open(f"/lineage?of=dataset:1&since={SINCE}&until=2025-01-02")
    browser.shows("2025-01-02", "0 edges")
    browser.click_field("Until")
    browser.click("Until a week ago")
    until(lambda: "until=7d" in browser.driver.current_url)
    browser.shows("Until a week ago", " edge")

    until(lambda: "0 edges" not in browser.text)


def test_a_job_leads_to_its_run_that_to_its_operation_with_its_sql_and_all_lead_back(browser: Browser) -> None:
    browser.open("/lineage?list=jobs")
    browser.write("Search jobs", SPARK_JOB)
    until(lambda: f"search={SPARK_JOB}" in browser.driver.current_url)
    browser.shows("SPARK_APPLICATION")
    browser.click("yarn://analytics")
    browser.shows("In one location", "Show all")
    browser.press("td a", Keys.ENTER)
    browser.shows("Jobs around it", "Starts it", TASK)
    browser.click("succeeded, 2025-02-23 04:09:41")
    browser.shows(f"Run of {SPARK_JOB}", "orders.raw", "990", "32 kB", "INSERT OVERWRITE TABLE sales.orders")
    browser.press('td a[href*="of=operation"]', Keys.ENTER)
    browser.shows("INSERT OVERWRITE TABLE sales.orders SELECT * FROM raw", "1,000", "64 kB")
    browser.click("All runs")
    browser.shows("Any state", "Last 30 days")


def test_pages_are_turned_and_the_address_says_which_list_it_is(browser: Browser) -> None:
    browser.open("/lineage?list=jobs&search=onerror")
    browser.shows(f"{MARKUP} 00", f"1 to 50 of {MANY}")
    browser.click("Next")
    browser.shows(f"{MARKUP} 59", f"51 to {MANY} of {MANY}")
    until(lambda: "page=1" in browser.driver.current_url)
    browser.open(browser.driver.current_url.removeprefix(browser.address))
    browser.shows(f"{MARKUP} 59")
    browser.write("Search jobs", " 07")
    browser.shows(f"{MARKUP} 07", "1 to 1 of 1")
    browser.click("Everything")
    browser.shows("Kind")
    browser.press("td a", Keys.ENTER)
    browser.shows("Jobs around it", "UNKNOWN")

    assert "obeyed" not in browser.driver.title
    assert [] == browser.driver.find_elements(By.CSS_SELECTOR, "img[src=x]")


def test_a_token_is_shown_once_and_revoked_by_typing_its_name(browser: Browser) -> None:
    browser.open("/lineage?list=tokens")
    browser.shows("No tokens")
    browser.click("Make a token")
    browser.write("Name", "nightly load")
    browser.click("Make")
    browser.shows("Token 'nightly load'", "personal_token_")
    browser.click("Done")
    until(lambda: "personal_token_" not in browser.text)
    browser.shows("nightly load", "etl", "Read")
    browser.click("Revoke")
    browser.write("Type nightly load to confirm", "nightly load")
    browser.click("Revoke")
    browser.shows("No tokens")

    assert [] == browser.complaints
