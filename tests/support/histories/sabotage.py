"""Sinks and drivers that break the promise, each in one way. The judge has to find every one of them.

They are patched into the driver's process, so that everything around the broken part is the real thing.
"""

import os
from collections.abc import Callable
from typing import Any

from penstock.delivery import sink_progress
from penstock.delivery.dead_letters import DeadLetters
from penstock.delivery.outbox import Outbox
from penstock.driver import batch, runner
from penstock.sinks.postgres import PostgresSink


def _replace(where: Any, name: str, by: Callable[..., Any]) -> None:
    """Put a broken piece into the place of a sound one, which must be there."""
    assert callable(getattr(where, name))
    setattr(where, name, by)


def _after_prepare(statement: str) -> Callable[[], None]:
    """Do something to the rows inside of the very transaction that moves the positions."""

    def patch() -> None:
        prepare = PostgresSink.prepare

        def prepared(self: Any, *arguments: Any) -> Any:
            refused = prepare(self, *arguments)
            if not refused:
                self._prepared.execute(statement)
            return refused

        _replace(PostgresSink, "prepare", prepared)

    return patch


def _position_without_data() -> None:
    """Move the position first, and lose the batch that should have followed."""
    _after_prepare("DELETE FROM landed")()


def _data_without_position() -> None:
    """Send records, and leave the position where it was, once: a driver that lives on would send them without end."""
    send = Outbox.send
    is_about_to_die = "PENSTOCK_CRASH_AT" in os.environ

    def sent(self: Any, files: Any, expected: Any, ends: Any) -> Any:
        return send(self, files, expected, {} if is_about_to_die and self._name != "dead" else ends)

    _replace(Outbox, "send", sent)


def _skip_gaps_in_silence() -> None:
    def jump(_pipeline: str, found: Any, available: Any) -> None:
        for each in available:
            for positions in found.resume_offsets.values():
                positions[each.source_partition] = max(positions[each.source_partition], each.first)

    _replace(sink_progress, "require_readable", jump)


def _any_topic_will_do() -> None:
    _replace(sink_progress, "require_same_topics", lambda *_: None)
    _replace(batch, "_require_same_topics", lambda *_: None)


def _no_dead_letters() -> None:
    commit = DeadLetters.commit
    _replace(DeadLetters, "commit", lambda self, _files, expected, ends: commit(self, [], expected, ends))


def _other_bytes_in_dead_letters() -> None:
    from penstock.kafka.producer import Producer

    send = Producer.send

    def sent(self: Any, topic: str, value: Any, **options: Any) -> Any:
        return send(self, topic, b"?" if topic.endswith(".dead") else value, **options)

    _replace(Producer, "send", sent)


def _always_content() -> None:
    """End with 0, and read nothing."""
    _replace(runner.Runner, "run", lambda *_: None)


SABOTAGES: dict[str, Callable[[], None]] = {
    "loses the last row of a batch": _after_prepare("DELETE FROM landed WHERE ctid = (SELECT max(ctid) FROM landed)"),
    "doubles a row": _after_prepare("INSERT INTO landed SELECT * FROM landed ORDER BY ctid DESC LIMIT 1"),
    "changes a value": _after_prepare(
        "UPDATE landed SET payload = 'other' WHERE ctid = (SELECT max(ctid) FROM landed)"
    ),
    "swaps two rows": _after_prepare(
        "UPDATE landed SET n = CASE n WHEN lowest THEN highest ELSE lowest END"
        " FROM (SELECT min(n) AS lowest, max(n) AS highest FROM landed) AS ends WHERE n IN (lowest, highest)"
    ),
    "invents a row": _after_prepare(
        "INSERT INTO landed (_topic_id, _partition, _offset, n, sha)"
        " SELECT _topic_id, _partition, 99999, n, sha FROM landed LIMIT 1"
    ),
    "moves the position without the data": _position_without_data,
    "writes the data without the position": _data_without_position,
    "skips what retention took in silence": _skip_gaps_in_silence,
    "reads a recreated topic as if nothing had happened": _any_topic_will_do,
    "loses dead letters": _no_dead_letters,
    "changes the bytes of dead letters": _other_bytes_in_dead_letters,
    "says that all is well and does nothing": _always_content,
}


def apply(name: str) -> None:
    """Break this process in one way; no name, no change."""
    if name:
        SABOTAGES[name]()
        os.environ.pop("HISTORY_SABOTAGE", None)
