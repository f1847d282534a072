"""The nodes of a local cluster by clicking: one is added, takes its share, is stopped and started."""

from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.config.project import LocalCluster
from penstock.jvm.jars import KAFKA

from conftest import RunningKafka, _run, _skip_without
from support.browsers import browsing_console, find_browser
from support.waiting import until

pytestmark = pytest.mark.soak


def brokers(kafka: RunningKafka) -> set[int]:
    return set(kafka.admin().metadata("looking who is up").brokers)


def leaders(kafka: RunningKafka, topic: str) -> set[int]:
    partitions = kafka.admin().metadata("looking who leads").topics[topic].partitions
    return {each.leader for each in partitions.values()}


def test_a_node_is_added_takes_its_share_and_is_stopped_and_started(jar_folder: Path) -> None:
    _skip_without(find_browser)
    cluster = contextmanager(_run)(LocalCluster(port=0), jar_folder, KAFKA)
    with cluster as kafka, browsing_console(kafka.home) as browser:
        topic = kafka.topic("spread", partitions=4)
        browser.open("/nodes")
        browser.click("Add a node")
        browser.shows("It holds nothing until partitions are moved to it")
        browser.click("Add")
        browser.shows("A node was added")
        added, before = brokers(kafka), leaders(kafka, topic)
        browser.click("Rebalance")
        browser.shows("partitions move", topic)
        browser.click("Move")
        browser.shows("The rebalance is done")
        browser.click("Close")
        until(lambda: "The rebalance is done" not in browser.text)
        after = leaders(kafka, topic)

        browser.open("/nodes/2")
        browser.click("Stop")
        browser.shows("Its data stay")
        browser.click("Stop")
        browser.shows("Stop node 2: done")
        until(lambda: brokers(kafka) == {1})
        browser.shows("down")
        browser.click("Start")
        browser.shows("Start node 2", "Its data stay")
        browser.click("Start")
        browser.shows("Start node 2: done")
        until(lambda: brokers(kafka) == {1, 2})
        until(lambda: leaders(kafka, topic) == {1, 2})

        assert ({1, 2}, {1}, {1, 2}) == (added, before, after)
        assert [] == browser.complaints
