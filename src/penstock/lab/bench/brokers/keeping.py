"""What is kept: events sent while no reader was there, the room they take, and whether they can be read again."""

import os
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from penstock.lab.bench.brokers.contenders import Contender
from penstock.lab.bench.brokers.game_events import GameEvents
from penstock.lab.bench.brokers.reader import drain
from penstock.lab.bench.brokers.speed import GROUP, send_all

_ANOTHER_GROUP = "latecomers"
_SILENCE_S = 2.0
_STILL_S = 1.0
_BLOCK_BYTES = 512


@dataclass(frozen=True)
class Retained:
    """How many of the events sent, and in how many bytes."""

    sent: int
    kept: int
    """Events that a group got which was away while they were sent."""
    replayed: int
    """Events that another group got afterwards, from the start."""
    disk_bytes: int


def keeping(contender: Contender, events: GameEvents, topic: str) -> Retained:
    """Send to a group that is away, let it come back, then let another group try to read it all again."""
    contender.make_topic(topic)
    wanted = set(range(len(events)))
    with closing(contender.open()) as transport:
        transport.subscribe(topic, GROUP).close()
        before = folder_bytes(contender.data)
        send_all(transport, events, topic)
        after = folder_bytes(contender.data)
        kept = drain(transport, topic, GROUP, wanted, silence_s=_SILENCE_S)
        again = drain(transport, topic, _ANOTHER_GROUP, wanted, silence_s=_SILENCE_S)
    return Retained(
        len(events), len(wanted & kept.times.keys()), len(wanted & again.times.keys()), max(0, after - before)
    )


def folder_bytes(folder: Path) -> int:
    """Return what a folder takes on the disk, flushed, once the server has written what it still has in memory."""
    size, seen_s = _flushed_bytes(folder), time.monotonic()
    while time.monotonic() - seen_s < _STILL_S:
        time.sleep(_STILL_S / 5)
        now = _flushed_bytes(folder)
        if now != size:
            size, seen_s = now, time.monotonic()
    return size


def _flushed_bytes(folder: Path) -> int:
    """Count blocks, not lengths: Kafka's indexes are long and mostly holes."""
    total = 0
    for path in folder.rglob("*"):
        try:
            file = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue  # servers replace files as they go
        try:
            os.fsync(file)
            total += os.fstat(file).st_blocks * _BLOCK_BYTES
        finally:
            os.close(file)
    return total
