"""The judge must fail on a topic that drops, doubles, swaps, invents or resurrects."""

import random
from collections.abc import Callable

import pytest

from support.history import Event, History, verdict

Tamper = Callable[[list[Event], random.Random], list[Event]]


def honest() -> tuple[History, list[Event]]:
    history = History()
    events = []
    for number in range(1000):
        key = f"key-{number % 7}"
        event = Event(key, history.sent[key], partition=number % 7, offset=number // 7)
        history.sent[key] += 1
        history.acknowledged[event.key, event.number] = (event.partition, event.offset)
        events.append(event)
    return history, events


def drop_one(events: list[Event], dice: random.Random) -> list[Event]:
    events.pop(dice.randrange(len(events)))
    return events


def double_one(events: list[Event], dice: random.Random) -> list[Event]:
    place = dice.randrange(len(events))
    again = events[place]
    return [*events, Event(again.key, again.number, again.partition, again.offset + 10_000)]


def swap_two_of_a_key(events: list[Event], dice: random.Random) -> list[Event]:
    place = dice.randrange(len(events) - 7)
    events[place], events[place + 7] = events[place + 7], events[place]
    return events


def invent_one(events: list[Event], _dice: random.Random) -> list[Event]:
    return [*events, Event("key-0", 999_999, 0, 999_999)]


def move_one(events: list[Event], dice: random.Random) -> list[Event]:
    place = dice.randrange(len(events))
    event = events[place]
    events[place] = Event(event.key, event.number, event.partition, event.offset + 10_000)
    return events


def test_an_honest_topic_passes() -> None:
    history, events = honest()

    assert [] == verdict(history, events)


@pytest.mark.parametrize("tamper", [drop_one, double_one, swap_two_of_a_key, invent_one, move_one])
def test_a_topic_that_was_tampered_with_fails(tamper: Tamper) -> None:
    history, events = honest()

    assert verdict(history, tamper(events, random.Random(1)))


def test_a_failed_send_that_is_in_the_topic_fails() -> None:
    history, events = honest()
    event = events[3]
    del history.acknowledged[event.key, event.number]
    history.failed.add((event.key, event.number))

    assert ["a failed send is there: ('key-3', 0)"] == verdict(history, events)


def test_an_unknown_send_may_be_there_or_not() -> None:
    history, events = honest()
    last = events[-1]
    del history.acknowledged[last.key, last.number]

    assert [] == verdict(history, events)
    assert [] == verdict(history, events[:-1])
