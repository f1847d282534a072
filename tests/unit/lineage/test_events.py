"""Reading events: what is one, and the reason in plain words for what is none."""

import datetime
import json
from typing import Any

import pytest

from penstock.lineage.events import MAX_BYTES, MalformedEvent, parse

from support.lineage_samples import AIRFLOW, ALL, event

RUN = "01953100-0000-7000-8000-000000000001"
GOOD = event("START", "2025-02-23T04:09:31Z", RUN, ("local", "job"))


def changed(**fields: Any) -> bytes:
    return json.dumps({key: value for key, value in {**GOOD, **fields}.items() if value is not None}).encode()


@pytest.mark.parametrize(
    ("kind", "words", "value"),
    [
        ("EmptyValue", "the value is empty", b" "),
        ("Malformed", "the value is not JSON", b"hello"),
        ("Malformed", "the value is not JSON", b'{"eventTime": "2025'),
        ("Malformed", "the value is not JSON", b'{"job": "\xff"}'),
        ("Malformed", "the value is JSON, but no object", b"[1, 2]"),
        ("TooDeep", "nested too deeply", b'{"facets":' + b"[" * 100_000),
        ("TooLarge", "at most 10000000 are accepted", b" " * (MAX_BYTES + 1)),
        ("NoRun", "the event has no run", changed(run=None)),
        ("NoRun", "no run, no job and no dataset", b'{"eventTime": "2025-02-23T04:09:31Z"}'),
        ("BadRunId", "the run's id is not a UUID", changed(run={"runId": "scheduled__2025"})),
        ("BadRunId", "the run's id is not a UUID", changed(run={})),
        ("BadRunId", "which names no run", changed(run={"runId": "00000000-0000-0000-0000-000000000000"})),
        ("NoJob", "the event has a run and no job", changed(job=None)),
        ("NoJob", "`namespace`", changed(job={"name": "j"})),
        ("BadTime", "no eventTime that can be read", changed(eventTime=None)),
        ("BadTime", "no eventTime that can be read", changed(eventTime="yesterday")),
        ("BadTime", "is not a time in UTC", changed(eventTime="0001-01-01T00:00:00+14:00")),
        ("BadType", "none of START", changed(eventType="BEGIN")),
        ("SchemaMismatch", "`name`", changed(inputs=[{"namespace": "x"}])),
    ],
)
def test_what_is_no_event_gets_one_reason_in_plain_words(kind: str, words: str, value: bytes) -> None:
    with pytest.raises(MalformedEvent) as found:
        parse(value)

    assert kind == found.value.kind
    assert words in str(found.value)


@pytest.mark.parametrize("producer", ALL)
def test_events_of_each_producer_are_read(producer: str) -> None:
    for each in ALL[producer]:
        expected = datetime.datetime.fromisoformat(each["eventTime"]).astimezone(datetime.UTC)
        assert expected == parse(json.dumps(each).encode()).event_time


def test_a_time_without_a_zone_is_utc() -> None:
    expected = datetime.datetime(2025, 2, 23, 4, 9, 31, tzinfo=datetime.UTC)
    assert expected == parse(changed(eventTime="2025-02-23T04:09:31")).event_time


def test_an_odd_facet_does_not_cost_the_event() -> None:
    odd = parse(changed(run={"runId": RUN, "facets": {"parent": 5, "nominalTime": {"nominalStartTime": "soon"}}}))

    assert odd.run is not None
    assert {"parent", "nominalTime"} == set(odd.run.facets or ())


def test_the_character_zero_which_no_database_takes_is_replaced() -> None:
    backslashes = "C:\\u0000"
    value = json.dumps({**AIRFLOW[0], "job": {"namespace": backslashes, "name": "a\0b"}}).encode()

    job = parse(value).job

    assert job is not None
    assert ("a�b", backslashes) == (job.name, job.namespace)
