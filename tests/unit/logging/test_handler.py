import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import BadInput, BrokerUnavailable, RecordsRefused
from penstock.logging import EventHandler, HandlerOptions
from penstock.logging import handler as handlers
from penstock.transports import Outgoing, Subscription

from support.waiting import until


class Memory:
    """A transport that keeps what it gets, and is away while `open` is not set."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.got: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.batches: list[int] = []
        self.attempts = 0
        self.poison = b"poison"
        self.closed = False

    def send(self, messages: Sequence[Outgoing]) -> None:
        self.attempts += 1
        logging.getLogger("client").warning("the client talks while it sends")
        if not self.open.is_set():
            raise BrokerUnavailable("nobody is there")
        if any(self.poison in message.value for message in messages):
            raise BadInput("too large")
        self.got += [json.loads(message.value) for message in messages]
        self.keys += [message.key for message in messages]
        self.batches.append(len(messages))

    def subscribe(self, topic: str, group: str) -> Subscription:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True

    def messages(self) -> list[str]:
        return [event["message"] for event in self.got]


@contextmanager
def logging_to(transport: Memory, **options: Any) -> Iterator[tuple[logging.Logger, EventHandler]]:
    handler = EventHandler(lambda: transport, HandlerOptions(topic="logs", **{"flush_timeout_s": 120.0, **options}))
    root = logging.getLogger()
    root.addHandler(handler)
    logger = logging.getLogger("app")
    logger.setLevel(logging.INFO)
    try:
        yield logger, handler
    finally:
        root.removeHandler(handler)
        handler.close()


def test_records_arrive_in_order_with_their_key_and_without_those_of_the_client() -> None:
    memory = Memory()

    with logging_to(memory, key="game_id") as (logger, handler):
        for number in range(1000):
            logger.info("%d", number, extra={"game_id": number % 3})
        handler.flush()
        counts = (handler.sent, handler.dropped)

    assert [str(number) for number in range(1000)] == memory.messages()
    assert [str(number % 3) for number in range(1000)] == memory.keys
    assert (1000, 0) == counts
    assert memory.closed


def test_a_batch_has_no_more_events_than_it_may() -> None:
    memory = Memory()

    with logging_to(memory, batch_events=7) as (logger, _):
        for number in range(50):
            logger.info("%d", number)

    assert 50 == sum(memory.batches)
    assert max(memory.batches) <= 7


def test_what_was_logged_while_the_server_was_away_arrives_in_order_when_it_is_back() -> None:
    memory = Memory()
    memory.open.clear()

    with logging_to(memory, buffer_events=100, batch_events=10) as (logger, handler):
        for number in range(100):
            logger.info("%d", number)
        until(lambda: memory.attempts >= 2)
        memory.open.set()
        handler.flush()

    assert [str(number) for number in range(100)] == memory.messages()


@pytest.mark.parametrize(("when_full", "kept"), [("drop_oldest", range(150, 250)), ("drop_newest", range(100))])
def test_a_full_buffer_drops_as_told_counts_and_reports(
    when_full: str, kept: range, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = Memory()
    memory.open.clear()
    calling = threading.Event()
    go_on = threading.Event()

    def connect() -> Memory:
        calling.set()
        assert go_on.wait(120)
        return memory

    options = HandlerOptions(topic="logs", when_full=when_full, buffer_events=100, flush_timeout_s=120.0)
    handler = EventHandler(connect, options, server="memory://")
    logger = logging.getLogger("app.full")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    for number in range(250):
        logger.info("%d", number)
    assert calling.wait(120)
    memory.open.set()
    go_on.set()
    handler.flush()
    counts = (handler.sent, handler.dropped)
    logger.removeHandler(handler)
    handler.close()

    notices = [event for event in memory.got if event["message"] == "Log Records Dropped"]
    assert [str(number) for number in kept] == [text for text in memory.messages() if text.isdecimal()]
    assert (100, 150) == counts
    assert [("WARNING", 150)] == [(notice["level"], notice["dropped"]) for notice in notices]
    assert ["penstock: log records to memory://: 150 were dropped"] == capsys.readouterr().err.splitlines()


def test_block_waits_for_room_and_loses_nothing() -> None:
    memory = Memory()
    memory.open.clear()
    done = threading.Event()

    with logging_to(memory, when_full="block", buffer_events=10) as (logger, handler):

        def log() -> None:
            for number in range(30):
                logger.info("%d", number)
            done.set()

        thread = threading.Thread(target=log)
        thread.start()
        until(lambda: memory.attempts >= 2)
        assert not done.is_set()
        memory.open.set()
        thread.join(120)
        handler.flush()
        counts = (handler.sent, handler.dropped)

    assert (30, 0) == counts
    assert [str(number) for number in range(30)] == memory.messages()


def test_closing_lets_a_blocked_thread_go_on_and_says_what_was_lost(capsys: pytest.CaptureFixture[str]) -> None:
    memory = Memory()
    memory.open.clear()

    with logging_to(memory, when_full="block", buffer_events=2, flush_timeout_s=0.1) as (logger, handler):

        def log() -> None:
            for number in range(3):
                logger.info("%d", number)

        thread = threading.Thread(target=log)
        thread.start()
        until(lambda: memory.attempts >= 1 and handler._buffer._blocked == 1)
        handler.close()
        thread.join(120)

    assert not thread.is_alive()
    assert 1 == handler.dropped
    assert [
        "penstock: log records to the server: 2 were not sent within 0.1 s (nobody is there)"
    ] == capsys.readouterr().err.splitlines()


def test_flush_and_close_together_wait_no_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "_JUST_NOW_S", 120.0)  # for a machine that takes its time between the two
    memory = Memory()
    memory.open.clear()
    with logging_to(memory, flush_timeout_s=0.2) as (logger, handler):
        waited_s: list[float] = []
        drain = handler._buffer.drain

        def drained(timeout_s: float) -> bool:
            waited_s.append(timeout_s)
            return drain(timeout_s)

        monkeypatch.setattr(handler._buffer, "drain", drained)
        logger.info("never")
        handler.flush()
        handler.close()

    assert [0.2] == waited_s


def test_an_event_that_the_server_can_never_take_does_not_hold_up_the_others() -> None:
    memory = Memory()

    with logging_to(memory) as (logger, handler):
        for text in ("before", "poison", "after"):
            logger.info(text)
        handler.flush()
        counts = (handler.sent, handler.dropped)

    assert (2, 1) == counts
    assert ["before", "after"] == memory.messages()[:2]
    assert {"Log Records Dropped"} == set(memory.messages()[2:])


def test_a_server_that_takes_no_event_at_all_is_not_asked_for_ever() -> None:
    memory = Memory()
    memory.poison = b"message"

    with logging_to(memory, flush_timeout_s=120.0) as (logger, handler):
        for number in range(3):
            logger.info("%d", number)
        handler.flush()
        attempts = memory.attempts
        counts = (handler.sent, handler.dropped, handler._buffer.left, handler._buffer.unreported)

    assert (0, 3, 0, 0) == counts
    assert attempts == memory.attempts <= 12


def test_arguments_that_do_not_fit_the_message_are_reported_and_stop_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    memory = Memory()

    with logging_to(memory) as (logger, handler):
        # pytest's own handlers would raise.
        handler.handle(logger.makeRecord("app", logging.INFO, "file.py", 1, "%d", ("no number",), None))
        logger.info("fine")

    assert ["fine", "Log Records Dropped"] == sorted(memory.messages(), reverse=True)
    assert (1, 1) == (handler.sent, handler.dropped)
    assert "--- Logging error ---" in capsys.readouterr().err


@pytest.mark.parametrize("when_full", ["drop_oldest", "block"])
@pytest.mark.parametrize("created", [float("nan"), float("inf"), 1e300], ids=str)
def test_a_record_that_cannot_be_written_is_dropped_alone_and_counted(created: float, when_full: str) -> None:
    memory = Memory()

    with logging_to(memory, when_full=when_full, buffer_events=2) as (logger, handler):
        timeless = logger.makeRecord("app", logging.INFO, "file.py", 1, "timeless", (), None)
        timeless.created = created
        handler.handle(timeless)
        for number in range(5):
            logger.info("%d", number)
            handler.flush()
        counts = (handler.sent, handler.dropped)

    assert [str(number) for number in range(5)] == [text for text in memory.messages() if text.isdecimal()]
    assert (5, 1) == counts


def test_a_transport_that_names_the_refused_ones_gets_none_of_the_others_twice() -> None:
    class Exact(Memory):
        def send(self, messages: Sequence[Outgoing]) -> None:
            refused = [number for number, message in enumerate(messages) if self.poison in message.value]
            super().send([message for message in messages if self.poison not in message.value])
            if refused:
                raise RecordsRefused("too large", refused=refused)

    memory = Exact()

    with logging_to(memory, linger_s=0.2) as (logger, handler):
        for text in ("before", "poison", "after"):
            logger.info(text)
        handler.flush()
        counts = (handler.sent, handler.dropped)

    assert (2, 1) == counts
    assert ["before", "after", "Log Records Dropped"] == memory.messages()


def test_leaving_the_context_sends_what_is_left_and_gives_the_logger_back_as_it_was() -> None:
    memory = Memory()
    logger = logging.getLogger("part-of-a-program")
    logger.setLevel(logging.WARNING)
    handler = EventHandler(lambda: memory, HandlerOptions(topic="logs", linger_s=0.5))
    handler.setLevel(logging.INFO)

    with handler:
        handler.attach(logger)
        logger.info("inside")
    logger.error("outside")

    assert ["inside"] == memory.messages()
    assert (logging.WARNING, [], True) == (logger.level, logger.handlers, memory.closed)


_CHILDREN = """
import concurrent.futures, logging, multiprocessing, os, sys
from penstock.logging import EventHandler, HandlerOptions

class Appending:
    def send(self, messages):
        with open(sys.argv[1], "ab") as file:
            file.writelines(message.value + b"\\n" for message in messages)

    def close(self):
        pass

def begin():
    logging.getLogger().addHandler(EventHandler(Appending, HandlerOptions(topic="logs", linger_s=0.5)))
    logging.getLogger().setLevel(logging.INFO)

def work(number):
    if not logging.getLogger().handlers:
        begin()
    logging.info("child %d", number)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    if sys.argv[2] == "fork":
        begin()
    for number in range(3):
        child = context.Process(target=work, args=(number,))
        child.start()
        child.join()
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        list(pool.map(work, range(3, 9)))
"""


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_records_of_children_of_multiprocessing_arrive(way: str, tmp_path: Path) -> None:
    program, found = tmp_path / "program.py", tmp_path / "found"
    program.write_text(_CHILDREN)

    subprocess.run([sys.executable, program, found, way], check=True, timeout=60)

    assert [f"child {number}" for number in range(9)] == sorted(
        json.loads(line)["message"] for line in found.read_bytes().splitlines()
    )


def test_a_complaint_is_one_line_whatever_the_server_says(capsys: pytest.CaptureFixture[str]) -> None:
    def connect() -> Memory:
        raise OSError("no route\npenstock: log records to memory://: all is well")

    handler = EventHandler(connect, HandlerOptions(topic="logs", flush_timeout_s=0.3), server="memory://")
    handler.handle(logging.makeLogRecord({"msg": "lost"}))
    until(lambda: handler._failing_since is not None)
    handler.close()

    assert 1 == len(capsys.readouterr().err.splitlines())
