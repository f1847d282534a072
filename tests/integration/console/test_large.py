"""A console with much to show, in a real browser: 500 nodes, 10,000 groups, 100 partitions, and the first view."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock.kafka import groups
from penstock.kafka.admin import Admin
from penstock.lineage.store.address import StoreAddress, default_path
from penstock.lineage.store.database import migrate

from conftest import RunningKafka, _skip_without
from support.browsers import Browser, browsing_console, find_browser
from support.lineage_samples import event
from support.lineage_stories import write_in_batches

pytestmark = pytest.mark.soak
JOBS = 250
GROUPS = 10_000
PARTITIONS = 100
SINCE = "2025-01-01"
POINT_AT_EACH = """
const took = [...document.querySelectorAll('.lineage .node')].map(each => {
  const began = performance.now();
  each.dispatchEvent(new MouseEvent('mouseover', {bubbles: true}));
  each.getBoundingClientRect();
  return performance.now() - began;
});
return [took.length, took.sort((one, other) => one - other)[took.length >> 1]];
"""
POINT_AT_END = """
const end = [...document.querySelectorAll('.lineage .node')].find(each => each.textContent.includes('made 7'));
end.dispatchEvent(new MouseEvent('mouseover', {bubbles: true}));
return [...document.querySelectorAll('.lineage .node.on text:first-of-type')].map(each => each.textContent).sort();
"""


@pytest.fixture(scope="module")
def browser(kafka: RunningKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    _skip_without(find_browser)
    home = tmp_path_factory.mktemp("home")
    _fill(home)
    with browsing_console(home, kafka.connection.bootstrap_servers) as browser:
        yield browser


def _fill(home: Path) -> None:
    """Have one table read by many jobs, each of which writes one."""
    path = default_path(home)
    path.parent.mkdir(parents=True)
    address = StoreAddress(store=str(path))
    migrate(address)
    told = []
    for number in range(JOBS):
        run, job = f"01950000-0000-7000-8000-{number:012}", ("etl", f"job {number}")
        read, written = ({"namespace": "postgres://db:5432", "name": each} for each in ("hub", f"made {number}"))
        told.append(event("COMPLETE", "2025-02-13T12:00:00Z", run, job, inputs=[read], outputs=[written]))
    write_in_batches(address, [json.dumps(each).encode() for each in told], 1_000)


def _in_page(browser: Browser, script: str) -> Any:
    return browser.driver.execute_script(script)


def test_a_graph_of_five_hundred_nodes_follows_the_pointer(browser: Browser) -> None:
    browser.open("/lineage?list=datasets&search=hub")
    browser.shows("1 to 1 of 1")
    (link,) = _in_page(
        browser, "return [...document.querySelectorAll('td a')].map(a => a.href).filter(h => /of=/.test(h))"
    )
    browser.open(link.removeprefix(browser.address).replace("since=30d", f"since={SINCE}") + f"&since={SINCE}")
    browser.shows(f"{2 * JOBS + 1:,} nodes")
    drawn, ms_each = _in_page(browser, POINT_AT_EACH)

    assert 2 * JOBS + 1 == drawn
    assert ["hub", "job 7", "made 7"] == _in_page(browser, POINT_AT_END)
    assert ms_each < 16
    assert [] == browser.complaints


def test_ten_thousand_groups_are_listed_a_page_at_a_time_and_searched(browser: Browser, kafka: RunningKafka) -> None:
    topic, admin = kafka.topic("read-by-many"), Admin(kafka.connection, timeout_s=120.0)
    names = [f"{topic}.{number:05}" for number in range(GROUPS)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: groups.commit(admin, name, {(topic, 0): 0}), names))

    browser.open("/groups")
    began_s = time.monotonic()
    browser.shows("1 to 50 of")
    listed_s = time.monotonic() - began_s
    browser.write("Search groups", names[7_777])
    browser.shows(names[7_777], "1 to 1 of 1")

    assert listed_s < 5


def test_a_topic_of_a_hundred_partitions_and_the_first_view_are_there_at_once(
    browser: Browser, kafka: RunningKafka
) -> None:
    topic = kafka.topic("wide", partitions=PARTITIONS)
    took_s: dict[str, float] = {}
    pages = {"/": ("Overview", "Nodes up"), f"/topics/{topic}": (topic, "First offset", "1-50 of 100")}
    for path, words in [*pages.items()] * 3:  # the best of three: others work on this machine, too
        began_s = time.monotonic()
        browser.open(path)
        browser.shows(*words)
        took_s[path] = min(took_s.get(path, 60.0), time.monotonic() - began_s)

    assert [] == browser.complaints
    assert took_s["/"] < 1.5
    assert took_s[f"/topics/{topic}"] < 2
