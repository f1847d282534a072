"""Expectations: what breaks a rule is a dead letter, dropped, counted, or stops everything; all of it adds up."""

from typing import Any

import pytest

from penstock.errors import PipelineHalted

from support.pipelines import Lab, record_errors, total


def rule(name: str, that: str, otherwise: str) -> dict[str, str]:
    return {"name": name, "that": that, "otherwise": otherwise}


def test_each_rule_does_what_it_says_and_counts_what_broke_it(lab: Lab) -> None:
    topic = lab.kafka.topic("rules")
    lab.send_ids(topic, range(10))
    lab.send(topic, {"id": 10}, b"poison")
    expect = [
        rule("name is known", "name <> ''", "dead_letter"),
        rule("small", "id < 8", "drop"),
        rule("not seven", "id <> 7", "warn"),
        rule("not nine", "id <> 9", "warn"),
        rule("never", "id >= 0", "fail"),
    ]

    reports = lab.run(lab.spec(topic, expect=expect))

    assert list(range(8)) == lab.ids()
    # A row that an earlier rule took away is not judged by the later ones; null is not true.
    (report,) = reports
    assert {"name is known": 1, "small": 2, "not seven": 1, "not nine": 0, "never": 0} == {
        each["name"]: report.rules.get(each["name"], 0) for each in expect
    }
    assert [(10, "expect", "ExpectationFailed"), (11, "decode", "Malformed")] == record_errors(lab.letters(topic))
    assert "name is known: name <> ''" == lab.letters(topic)[0].message
    assert (12, 8, 2, 2) == _shown(total(reports))


def test_a_rule_that_fails_on_a_record_is_no_answer_but_a_failure_of_that_record(lab: Lab) -> None:
    topic = lab.kafka.topic("judged")
    lab.send_ids(topic, [1, 0, 2])

    reports = lab.run(lab.spec(topic, expect=[rule("share", "6 / id > 1", "drop")]))

    assert [1, 2] == lab.ids()
    assert [(1, "expect", "SqlFailed")] == record_errors(lab.letters(topic))
    assert (3, 2, 1, 0) == _shown(total(reports))


def test_a_rule_that_says_stop_stops_before_anything_is_written(lab: Lab) -> None:
    topic = lab.kafka.topic("stop")
    lab.send_ids(topic, range(5))
    lenient = lab.spec(topic)
    strict = lab.spec(topic, expect=[rule("no seven", "id <> 7", "fail")])
    lab.run(lenient)
    lab.send_ids(topic, range(5, 9))
    lab.send(topic, b"poison")
    committed = lab.home(topic).checkpoint / "committed.json"
    before = committed.read_bytes()

    with pytest.raises(PipelineHalted, match=rf"'no seven' of pipeline '{topic}' is broken at {topic}/0 offset 7"):
        lab.run(strict)
    after_refusal = (lab.ids(), lab.letters(topic), committed.read_bytes())
    lab.run(lenient)

    assert (list(range(5)), [], before) == after_refusal
    assert list(range(9)) == lab.ids()
    assert 1 == len(lab.letters(topic))


def test_every_sink_accounts_for_every_event_with_conditions_of_its_own(lab: Lab) -> None:
    topic = lab.kafka.topic("conserved", partitions=3)
    for partition in range(3):
        lab.send_ids(topic, range(partition * 10, partition * 10 + 10), partition=partition)
        lab.send(topic, b"poison", {"id": -1, "name": None}, partition=partition)
    sinks: list[dict[str, Any]] = [
        {"type": "delta", "name": "all", "path": str(lab.table)},
        {"type": "delta", "name": "even", "path": str(lab.folder / "even"), "where": "id % 2 = 0"},
        {"type": "delta", "name": "none", "path": str(lab.folder / "none"), "where": "NULL"},
    ]

    reports = lab.run(lab.spec(topic, sinks=sinks, batch={"max_events": 18}))

    assert 2 == len(reports)
    assert [(36, 33, 3, 0), (36, 15, 3, 18), (36, 0, 3, 33)] == [_shown(total(reports, sink["name"])) for sink in sinks]
    assert [-1, -1, -1, *range(30)] == lab.ids()
    assert list(range(0, 30, 2)) == lab.ids(lab.folder / "even")
    assert [] == lab.ids(lab.folder / "none")
    assert 3 == len(lab.letters(topic))


def test_a_sinks_condition_that_fails_on_a_record_costs_that_record(lab: Lab) -> None:
    topic = lab.kafka.topic("condition")
    lab.send_ids(topic, [1, 0, 2])

    reports = lab.run(lab.spec(topic, sinks=[{"type": "delta", "path": str(lab.table), "where": "4 / id > 3"}]))

    assert [1] == lab.ids()
    assert [(1, "where", "SqlFailed")] == record_errors(lab.letters(topic))
    assert (3, 1, 1, 1) == _shown(total(reports))


def _shown(count: Any) -> tuple[int, int, int, int]:
    return count.read, count.written, count.dead, count.dropped
