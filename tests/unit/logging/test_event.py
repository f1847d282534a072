import asyncio
import datetime
import decimal
import json
import logging
import uuid
from typing import Any

import pytest

from penstock.logging import log_context
from penstock.logging.context import current
from penstock.logging.event import encode, snapshot


def record(message: str = "hello", *args: Any, **extra: Any) -> logging.LogRecord:
    logger = logging.getLogger("app.part")
    return logger.makeRecord("app.part", logging.INFO, "file.py", 1, message, args, None, extra=extra)


def written(made: logging.LogRecord) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(encode(snapshot(made, current(), None)))
    return document


class Shy:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_event_is_flat_with_time_level_logger_message_and_extras() -> None:
    made = record("hit %s for %d", "USER001", 12, game_id="g1", damage=12)
    made.created = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, datetime.UTC).timestamp()

    assert {
        "at": "2026-01-02T03:04:05.678901Z",
        "level": "INFO",
        "logger": "app.part",
        "message": "hit USER001 for 12",
        "game_id": "g1",
        "damage": 12,
    } == written(made)


def test_microseconds_stand_there_when_they_are_zero() -> None:
    made = record()
    made.created = 0.0

    assert "1970-01-01T00:00:00.000000Z" == written(made)["at"]


def test_an_extra_with_the_name_of_a_standard_field_is_renamed() -> None:
    found = written(record(level="high", at="noon", exception="none", logger="mine"))

    assert ("high", "noon", "none", "mine") == tuple(
        found[f"field_{name}"] for name in ("level", "at", "exception", "logger")
    )
    assert ("INFO", "app.part") == (found["level"], found["logger"])
    assert "exception" not in found


def test_no_two_extras_end_up_under_one_name() -> None:
    standard = written(record(level=1, field_level=2, field_field_level=3))
    made = record()
    made.__dict__ |= {"\ud800": 1, "\\ud800": 2}
    broken = written(made)

    assert {1, 2, 3} == {value for name, value in standard.items() if "field_" in name}
    assert {1, 2} == {value for name, value in broken.items() if "ud800" in name}


def test_a_key_is_text_that_every_server_can_take() -> None:
    assert "\\ud800" == snapshot(record(game_id="\ud800"), {}, "game_id").key


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (decimal.Decimal("1.50"), "1.50"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (b"\xff", "\\xff"),
        ({1: {"a"}}, {"1": "{'a'}"}),
        (2**70, str(2**70)),
        (float("nan"), None),
        ("\ud800", "\\ud800"),
        (["\ud800"], "['\\ud800']"),
        (Shy(), "<Shy without a text>"),
        (int, "<class 'int'>"),
        ((1, None, True), [1, None, True]),
    ],
)
def test_an_extra_of_any_type_becomes_json(value: Any, expected: Any) -> None:
    assert expected == written(record(value=value))["value"]


def test_a_message_that_is_no_valid_text_is_sent_all_the_same() -> None:
    assert "broken \\ud800" == written(record("broken \ud800"))["message"]


def test_what_changes_after_logging_does_not_change_the_event() -> None:
    args, extra = {"a": 1}, [1]
    taken = snapshot(record("args %s", args, extra=extra), {}, None)
    args["a"], extra[0] = 2, 2

    found = json.loads(encode(taken))

    assert ("args {'a': 1}", [1]) == (found["message"], found["extra"])


def test_an_exception_and_the_stack_go_along_as_text() -> None:
    made = record()
    made.stack_info = "Stack (most recent call last):"
    made.exc_info = (ValueError, ValueError("boom"), None)

    found = written(made)

    assert "ValueError: boom" == found["exception"]
    assert "Stack (most recent call last):" == found["stack"]


def test_the_key_is_the_text_of_the_named_field() -> None:
    assert ["7", "g", None, None] == [
        snapshot(record(game_id=7), {}, "game_id").key,
        snapshot(record(), {"game_id": "g"}, "game_id").key,
        snapshot(record(), {}, "game_id").key,
        snapshot(record(game_id=7), {}, None).key,
    ]


def test_context_fields_are_in_every_record_inside_and_an_extra_wins() -> None:
    with log_context(game_id="outer", server=1), log_context(game_id="inner"):
        inside = written(record(server=2))
    external = written(record())

    assert ("inner", 2) == (inside["game_id"], inside["server"])
    assert not {"game_id", "server"} & external.keys()


def test_each_asyncio_task_has_its_own_context() -> None:
    async def play(game: str) -> list[str]:
        with log_context(game_id=game):
            found = []
            for _ in range(3):
                await asyncio.sleep(0)
                found.append(written(record())["game_id"])
            return found

    async def both() -> list[list[str]]:
        return list(await asyncio.gather(play("a"), play("b")))

    assert [["a"] * 3, ["b"] * 3] == asyncio.run(both())
