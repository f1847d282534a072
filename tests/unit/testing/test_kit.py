"""A pipeline over a list of messages: what lands, what is dead, what was counted."""

from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any, ClassVar

import pytest

from penstock import Batcher, BatchInfo, Message
from penstock.decoders.json import Json
from penstock.decoders.raw import Raw
from penstock.decoders.text import Text
from penstock.errors import BadInput, PipelineHalted
from penstock.record.manifest import added_up
from penstock.sinks.console import Console
from penstock.sinks.delta import Delta
from penstock.testing import Dead, Outcome, Record, run
from penstock.testing.dry_run import needs_spark

from support.kit import Timely, spec


def test_a_pipeline_without_steps_gives_its_decoded_rows() -> None:
    outcome = run(spec(), [{"id": 1, "s": "a"}, '{"id": 2}', b'{"id": 3}', Record({"id": 4})])

    assert [1, 2, 3, 4] == [row["id"] for row in outcome.rows]
    assert (4, [], {"console": 0}, {}, {}) == (
        outcome.read,
        outcome.dead,
        outcome.dropped,
        outcome.rules,
        outcome.handlers,
    )


def test_no_messages_make_no_rows() -> None:
    outcome = run(spec(), [])

    assert Outcome(0, {"console": []}, {"console": []}, [], {"console": 0}, {}, {}) == outcome


def test_messages_may_come_from_a_generator() -> None:
    assert 1000 == len(run(spec(), ({"id": number} for number in range(1000))).rows)


def test_what_cannot_be_decoded_is_dead_with_its_bytes_its_offset_and_the_reason() -> None:
    outcome = run(spec(), [{"id": 1}, "no json", b"\xff", {"s": "no id"}, [1], 5])

    assert [1] == [row["id"] for row in outcome.rows]
    assert [(1, b"no json"), (2, b"\xff"), (3, b'{"s":"no id"}'), (4, b"[1]"), (5, b"5")] == [
        (letter.offset, letter.value) for letter in outcome.dead
    ]
    assert {("decode", 0, None)} == {(letter.stage, letter.partition, letter.sink) for letter in outcome.dead}
    assert all(letter.error and letter.message for letter in outcome.dead)


def test_a_tombstone_is_dead_or_dropped_as_the_decoder_says() -> None:
    kept = run(spec(), [None, {"id": 1}])
    dropped = run(spec(decode=Json(schema="id bigint", tombstones="drop")), [None, Record(None, key="k"), {"id": 1}])

    assert ([None], {"console": 0}) == ([letter.value for letter in kept.dead], kept.dropped)
    assert ([], {"console": 2}, 3, [1]) == (
        dropped.dead,
        dropped.dropped,
        dropped.read,
        [row["id"] for row in dropped.rows],
    )


def test_text_and_raw_values_go_through_as_they_are() -> None:
    assert [["héllo"], [""]] == [list(row.values()) for row in run(spec(decode=Text()), ["héllo", ""]).rows]
    assert [[b"\xff\x00"]] == [list(row.values()) for row in run(spec(decode=Raw()), [b"\xff\x00"]).rows]


def test_rows_stand_partition_by_partition_in_the_order_of_the_messages() -> None:
    outcome = run(spec(), [Record({"id": number}, partition=(7, 3)[number % 2]) for number in range(6)])

    assert [1, 3, 5, 0, 2, 4] == [row["id"] for row in outcome.rows]


def test_every_sink_gets_the_rows_under_its_name() -> None:
    outcome = run(spec(sinks=[Console(name="a"), Delta(path=Path("t"))]), [{"id": 1}, "no json"])

    assert {"a": [{"id": 1, "s": None}], "delta": [{"id": 1, "s": None}]} == outcome.sinks
    assert ({"a": 0, "delta": 0}, 1) == (outcome.dropped, len(outcome.dead))


def test_of_several_sinks_one_must_be_named() -> None:
    outcome = run(spec(sinks=[Console(name="a"), Console(name="b")]), [{"id": 1}])

    with pytest.raises(BadInput, match=r"there are 2 sinks: say which, as in outcome.sinks\['name'\]"):
        _ = outcome.rows


def test_nothing_is_written_by_a_sink(tmp_path: Path) -> None:
    run(spec(sinks=[Delta(path=tmp_path / "t")]), [{"id": 1}])

    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [{1, 2}, object(), {"a": {1}}], ids=["set", "object", "set within"])
def test_a_value_that_is_no_json_is_not_sent(value: Any) -> None:
    with pytest.raises(TypeError, match="JSON"):
        run(spec(), [value])


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Record(1).value = 2  # type: ignore[misc]


def test_only_sql_needs_spark() -> None:
    rule = {"name": "known", "that": "id IS NOT NULL"}

    assert [False, False, True, True, True] == [
        needs_spark(each)
        for each in (
            spec(),
            spec(steps=[{"python": "a:f"}, {"handlers": "a:H"}]),
            spec(steps=[{"sql": "SELECT * FROM events"}]),
            spec(expect=[rule]),
            spec(sinks=[Console(where="id > 1")]),
        )
    ]


def test_running_leaves_no_files_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    run(Timely, [{"id": 1}])

    assert [] == list(tmp_path.iterdir())


class Refusing(Timely):
    name = "refusing"
    on_failure = "stop"

    def handle_message(self, message: Message) -> Message:
        return message.failed("enough") if message.partition == 1 and message.offset == 2 else message


def test_a_pipeline_that_stops_says_at_which_message() -> None:
    with pytest.raises(PipelineHalted, match="the pipeline stops at message 2: MessageFailed: enough"):
        run(Refusing, [Record({"id": number}, partition=number % 2) for number in range(8)])


class Busy(Timely):
    name = "busy"
    batchers: ClassVar = {"default": Batcher(batch_size=2)}

    def handle_batch(self, batcher: str, messages: list[Message], info: BatchInfo) -> list[Message]:  # noqa: ARG002
        return messages if info.trigger == "size" else [message.drop() for message in messages]


def test_what_handlers_did_is_added_up_over_partitions() -> None:
    outcome = run(Busy, [Record({"id": number}, partition=number % 3) for number in range(9)])

    assert ({"default": {"size": 3, "flush": 3}}, 9, 3) == (
        outcome.handlers["batches"],
        outcome.handlers["messages"],
        outcome.handlers["dropped"],
    )
    assert ({"console": 3}, 6) == (outcome.dropped, len(outcome.rows))


def test_counts_are_added_up_however_deep_they_lie() -> None:
    assert {"a": 3, "b": {"c": 1, "d": {"e": 5}}} == added_up(
        [{"a": 1, "b": {"c": 1}}, {}, {"a": 2, "b": {"d": {"e": 2}}}, {"b": {"d": {"e": 3}}}]
    )
    assert {} == added_up([])


def test_a_dead_letter_can_be_compared_as_a_whole() -> None:
    expected = Dead(0, 0, b"{", "decode", "Malformed", "", None, topic="messages")

    (actual,) = run(spec(), ["{"]).dead

    assert {**vars(expected), "message": actual.message} == vars(actual)
