"""Events that are odd in any place: a value, or the name of a field, is something that nobody expects there."""

import json
import random
from typing import Any

from penstock.lineage.events import MalformedEvent, parse

from support import lineage_samples as samples

JUNK: list[Any] = [
    *[None, True, -1, 2**63, 2**70, 1.5, 1e300, "", "x", " ", "\t\n", "a\0b", "\0", "\\u0000"],
    *["é" * 3000, "\U0001f600" * 900, "a" * 5000 + "://host", "None.None.", "/=/=", "://", "kafka://,,", "[::"],
    *["kafka://" + ",".join(f"h{number}" for number in range(500))],
    *["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2025-02-23", "ffffffff-ffff-7fff-bfff-ffffffffffff"],
    *["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "00000000-0000-0000-0000-000000000000"],
    *[[], {}, [None], {"x": None}, [{"namespace": "a", "name": "b", "type": "TABLE"}], {"runId": "x"}],
]
NAMES = ["", "a\0b", "é" * 3000, "x" * 10_000, "'; DROP TABLE run; --", "%s{}$1"]


def spoilt(dice: random.Random, node: Any) -> Any:
    """Return a copy in which one thing, anywhere, is something else."""
    if not isinstance(node, (dict, list)) or not node or dice.random() < 0.15:
        return dice.choice(JUNK)
    chosen: Any = dice.choice(list(node) if isinstance(node, dict) else range(len(node)))
    copied: Any = node.copy()
    if isinstance(node, dict) and dice.random() < 0.1:
        copied[dice.choice(NAMES)] = copied[chosen]
        return copied
    copied[chosen] = spoilt(dice, node[chosen])
    return copied


def spoilt_value(dice: random.Random) -> bytes:
    """Return a value that may still be an event."""
    events = [each for story in samples.ALL.values() for each in story]
    return json.dumps(spoilt(dice, dice.choice(events))).encode()


def odd_events(dice: random.Random, count: int) -> list[bytes]:
    """Return what is still an event among so many values."""
    return [each for each in (spoilt_value(dice) for _ in range(count)) if _is_event(each)]


def _is_event(value: bytes) -> bool:
    try:
        parse(value)
    except MalformedEvent:
        return False
    return True
