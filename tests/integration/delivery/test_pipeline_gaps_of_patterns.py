"""Topics of a pattern that are deleted before they were read: a gap, and the others go on."""

from typing import Any

import pytest

from penstock.delivery import gaps
from penstock.driver import batch
from penstock.driver.paths import Progress
from penstock.kafka import topics

from support.pipelines import Lab


def test_a_topic_of_a_pattern_that_is_deleted_with_an_unread_rest_leaves_a_gap(lab: Lab) -> None:
    stays, goes = lab.kafka.topic("patterned"), lab.kafka.topic("patterned")
    spec = lab.spec(stays, source={"type": "kafka", "pattern": f"{stays}|{goes}"}, rate={"events": 4, "per": "1h"})
    lab.send_ids(stays, range(2))
    lab.send_ids(goes, range(10, 15))
    goes_id = topics.describe(lab.kafka.admin(), goes).topic_id
    with lab.runner(spec) as runner:
        runner.run(lambda _progress: runner.stopping.set())
    landed = lab.ids()
    topics.delete(lab.kafka.admin(), goes)

    unlimited = spec.model_copy(update={"rate": None})
    for _ in range(2):
        lab.run(unlimited)

    read = sum(1 for each in landed if each >= 10)
    assert 0 < read < 5
    assert [(goes, goes_id, 0, read, None, "topic deleted")] == [
        (gap.topic, gap.topic_id, gap.partition, gap.start, gap.end, gap.reason)
        for gap in gaps.read(lab.home(stays).folder)
    ]


def test_a_topic_of_a_pattern_that_is_deleted_in_mid_batch_costs_the_others_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays, goes = lab.kafka.topic("halfway"), lab.kafka.topic("halfway")
    spec = lab.spec(stays, source={"type": "kafka", "pattern": f"{stays}|{goes}"})
    lab.send_ids(stays, range(2))
    lab.send_ids(goes, range(10, 15))
    look_again = batch._require_same_topics

    def delete_first(*known: Any) -> None:
        if goes in {each.topic for each in topics.list_topics(lab.kafka.admin())}:
            topics.delete(lab.kafka.admin(), goes)
        look_again(*known)

    monkeypatch.setattr(batch, "_require_same_topics", delete_first)
    heard: list[Progress] = []
    with lab.runner(spec) as runner:
        runner.run(heard.append)

    assert [0, 1] == lab.ids()
    assert [(goes, 0, 5, "topic deleted", "driver")] == [
        (gap.topic, gap.start, gap.end, gap.reason, gap.by) for gap in gaps.read(lab.home(stays).folder)
    ]
    assert [f"topic '{goes}' was deleted while a batch was running. Nothing of this batch was written"] == [
        each.waiting_for for each in heard if each.waiting_for
    ]
