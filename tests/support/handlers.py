"""Handlers that do what a test says, and how their outcome is read."""

import sys
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, cast

import pytest

from penstock import Batcher, BatchInfo, Message, Pipeline
from penstock.decoders.json import Json
from penstock.sinks.console import Console
from penstock.sources.kafka import Kafka
from penstock.testing import Outcome

seen: list[Any] = []
"""What the handlers below wrote down."""
behaviour: dict[str, Callable[..., Any]] = {}
"""What they do, by the handler's name; set by each test."""


@pytest.fixture(autouse=True)
def nothing_of_other_tests() -> Iterator[None]:
    path = list(sys.path)
    yield
    seen.clear()
    behaviour.clear()
    sys.path[:] = path


def told(name: str, given: Any) -> Any:
    """Do what the test says; give back what came if it says nothing."""
    return behaviour[name](given) if name in behaviour else given


class Landing(Pipeline):
    """Has all that a pipeline needs but its name."""

    source = Kafka(topics=["hits"])
    decode = Json(schema="id bigint, s string")
    sinks = (Console(),)


class Handled(Landing):
    """Does what a test says."""

    name = "handled"

    def __init__(self) -> None:
        told("__init__", self)

    def prepare_messages(self, messages: list[Message]) -> list[Message]:
        return cast("list[Message]", told("prepare_messages", messages))

    def handle_message(self, message: Message) -> Message:
        return cast("Message", told("handle_message", message))

    def handle_batch(self, batcher: str, messages: list[Message], info: BatchInfo) -> list[Message]:  # noqa: ARG002
        return cast("list[Message]", told("handle_batch", messages))

    def handle_failed(self, messages: list[Message]) -> None:
        seen.extend((message.offset, message.data, message.error and message.error["error"]) for message in messages)
        told("handle_failed", messages)


class Threes(Handled):
    name = "threes"
    batchers: ClassVar = {"default": Batcher(batch_size=3)}


def numbered(count: int) -> list[Any]:
    return [{"id": number} for number in range(count)]


def ids(outcome: Outcome) -> list[int]:
    """Return the rows' ids; nothing may be lost on the way."""
    assert outcome.read == len(outcome.rows) + len(outcome.dead) + outcome.handlers["dropped"]
    return [row["id"] for row in outcome.rows]


def dead(outcome: Outcome) -> list[tuple[int, str, str]]:
    assert {"handler"} >= {each.stage for each in outcome.dead if each.value != b"no json"}
    return [(each.offset, each.error, each.message) for each in outcome.dead]


def raising(error: Exception, at: int | None = None) -> Callable[[Message], Message]:
    def handle(message: Message) -> Message:
        if at is None or message.offset == at:
            raise error
        return message

    return handle


def setting(name: str, value: Any) -> Callable[[Message], Message]:
    def handle(message: Message) -> Message:
        setattr(message, name, value)
        return message

    return handle


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError
