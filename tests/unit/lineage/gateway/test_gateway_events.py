"""What a body becomes, and what is refused before anything is sent."""

import json
import random
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from penstock.kafka.topic_limits import TopicLimits
from penstock.lineage.events import MalformedEvent, parse
from penstock.lineage.gateway.events import Record, any_record, fitting, lineage_record, records
from penstock.lineage.gateway.options import GatewayLimits
from penstock.lineage.gateway.refusal import Refusal

_RUN = "0196f2a4-0000-4000-8000-000000000001"
_LIMITS = GatewayLimits(depth_max=8, batch_max_events=5, event_max_bytes=10_000)


def _event(**more: Any) -> dict[str, Any]:
    return {
        "eventTime": datetime.now(UTC).isoformat(),
        "eventType": "START",
        "run": {"runId": _RUN},
        "job": {"namespace": "shop", "name": "orders"},
        "producer": "tests",
        **more,
    }


def _taken(content: Any, limits: GatewayLimits = _LIMITS) -> list[Record]:
    return records(content if isinstance(content, bytes) else json.dumps(content).encode(), limits, lineage_record)


def _refused(content: Any, limits: GatewayLimits = _LIMITS) -> Refusal:
    with pytest.raises(Refusal) as caught:
        _taken(content, limits)
    return caught.value


def _parent(job: str, root: str | None = None) -> dict[str, Any]:
    facet: dict[str, Any] = {"run": {"runId": _RUN}, "job": {"namespace": "air", "name": job}}
    if root is not None:
        facet["root"] = {"run": {"runId": _RUN}, "job": {"namespace": "air", "name": root}}
    return {"runId": _RUN, "facets": {"parent": facet}}


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({}, b"run:shop/orders"),
        ({"run": _parent("dag.task")}, b"run:air/dag.task"),
        ({"run": _parent("dag.task", "dag")}, b"run:air/dag"),
        ({"run": {"runId": _RUN, "facets": {"parent": "broken"}}}, b"run:shop/orders"),
        ({"run": {"runId": _RUN, "facets": {"parent": None}}}, b"run:shop/orders"),
        ({"eventType": None, "run": None}, b"job:shop/orders"),
        ({"eventType": None, "run": None, "dataset": {"namespace": "pg", "name": "t"}}, b"dataset:pg/t"),
    ],
)
def test_what_belongs_together_has_one_key(more: dict[str, Any], key: bytes) -> None:
    assert [key] == [record.key for record in _taken(_event(**more))]


def test_a_body_is_forwarded_byte_for_byte() -> None:
    body = ("  " + json.dumps(_event(text="ä\u2028"), indent=3, ensure_ascii=False) + "\n").encode()

    assert [body] == [record.value for record in _taken(body)]


def test_each_event_of_a_batch_is_forwarded_byte_for_byte() -> None:
    parts = [json.dumps(_event(number=number), indent=number).encode() for number in range(3)]
    body = b" [ " + b" ,\n ".join(parts) + b"]"

    assert parts == [record.value for record in _taken(body)]


def test_a_record_has_the_time_of_its_event_unless_retention_or_kafka_would_mind() -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    times = [now - timedelta(hours=2), now - timedelta(days=30), now + timedelta(days=1)]
    taken = _taken([_event(eventTime=each.isoformat()) for each in times])

    assert [round(times[0].timestamp() * 1000), 0, 0] == [record.timestamp_ms for record in taken]


@pytest.mark.parametrize(
    ("content", "status", "said"),
    [
        (b"", 400, "empty"),
        (b"{", 400, "not JSON"),
        (b'{"a": "' + b"\\" * 5001, 400, "not JSON"),
        (b'{"a": "\xff"}', 400, "UTF-8"),
        (b"[]", 422, "no event"),
        (b"7", 400, "no object"),
        (b"[1, 2]", 422, "Event 0"),
        ({**_event(), "run": None}, 422, "has no run"),
        ({**_event(), "job": None}, 422, "no job"),
        ({"eventTime": "2026-01-01T00:00:00Z"}, 422, "no run, no job and no dataset"),
        (_event(run={"runId": "seven"}), 422, "UUID"),
        (_event(eventTime="yesterday"), 422, "eventTime"),
        ([_event(), _event(), {**_event(), "run": None}], 422, "Event 2"),
        (_event(a=[[[[[[[[1]]]]]]]]), 422, "8 deep"),
        (b"[" * 100_000 + b"]" * 100_000, 422, "8 deep"),
        ([_event()] * 6, 413, "5 events"),
        (_event(text="x" * 10_000), 413, "bytes"),
    ],
)
def test_what_cannot_be_taken_is_refused_whole(content: Any, status: int, said: str) -> None:
    refusal = _refused(content)

    assert (status, True) == (refusal.status, said in refusal.message)


def test_what_would_become_a_dead_letter_is_refused_with_the_same_reason() -> None:
    event = _event(inputs=[{"namespace": "kafka://broker"}])
    with pytest.raises(MalformedEvent) as dead_letter:
        parse(json.dumps(event).encode())

    details = _refused(event).details

    assert [(["body", "inputs[0]"], dead_letter.value.kind, str(dead_letter.value))] == [
        (each["location"], each["code"], each["message"]) for each in details
    ]


def test_every_bad_event_of_a_batch_is_named() -> None:
    refusal = _refused([_event(eventType="BEGIN"), _event(), {**_event(), "run": None}])

    assert (422, "2 of 3 events are refused") == (refusal.status, refusal.message.split(".")[0])
    assert [(["body", 0, "eventType"], "BadType"), (["body", 2, "run"], "NoRun")] == [
        (each["location"], each["code"]) for each in refusal.details
    ]


def test_brackets_in_strings_are_not_depth() -> None:
    assert 1 == len(_taken(_event(text='[[[[[[[[[[[[{{{{"\\[[[[')))


def test_a_hostile_body_is_counted_in_time_that_grows_with_its_size() -> None:
    limits = GatewayLimits(depth_max=200)
    began = time.process_time()
    for body in (b'"' + b'\\"' * 2_000_000, b"[" * 4_000_000, b"[{}" + b",{}" * 1_300_000 + b"]", b'{"a":' * 800_000):
        with pytest.raises(Refusal):
            records(body, limits, lineage_record)

    assert time.process_time() - began < 10


def test_depth_is_what_the_parser_would_say() -> None:
    dice = random.Random(7)

    def grow(depth: int) -> Any:
        if depth == 0:
            return dice.choice([1, "x]", '"{', None])
        filler = [grow(0) for _ in range(dice.randrange(3))]
        return [*filler, grow(depth - 1)] if dice.random() < 0.5 else {"a": filler, "b": grow(depth - 1)}

    for depth in range(1, 14):
        inner = grow(depth - 1)
        deepest = _depth(inner)
        limits = GatewayLimits(depth_max=max(2, deepest + 1))
        assert 1 == len(_taken(_event(a=inner), limits))
        if deepest >= 2:
            assert 422 == _refused(_event(a=inner), GatewayLimits(depth_max=deepest)).status


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max((_depth(each) for each in inner), default=0)


def test_other_topics_take_any_object_with_one_key() -> None:
    taken = records(b'[{"a": 1}, {}]', _LIMITS, any_record("k"))

    assert [Record(b'{"a": 1}', b"k", 0), Record(b"{}", b"k", 0)] == taken


def test_what_the_topic_would_refuse_is_refused_before_its_neighbours_suffer() -> None:
    taken = [Record(b"{}", None, 0), Record(b"x" * 2000, None, 0)]

    with pytest.raises(Refusal) as caught:
        fitting(taken, "orders", TopicLimits(max_bytes=1000))

    assert (413, 1) == (caught.value.status, caught.value.details[0]["location"][1])


def test_a_time_that_the_topic_does_not_take_becomes_now() -> None:
    old = Record(b"{}", None, round(time.time() * 1000) - 60_000)

    assert [0] == [each.timestamp_ms for each in fitting([old], "orders", TopicLimits(before_ms=1000))]
