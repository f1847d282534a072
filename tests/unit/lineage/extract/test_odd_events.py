"""Events that are odd in any place: each is either refused with a reason or read, and neither stops the others."""

import json
import random
from typing import Any

import pytest

from penstock.lineage.collected import packed, unpacked
from penstock.lineage.events import MalformedEvent, parse
from penstock.lineage.extract import Extractor

from support import lineage_samples as samples

JUNK: list[Any] = [
    *[
        None,
        True,
        -1,
        2**63,
        2**70,
        "a" * 5000 + "://host",
        1.5,
        "",
        "x",
        " ",
        "a\0b",
        "é" * 3000,
        "None.None.",
        "/=/=",
        "://",
        "kafka://,,",
        "[::",
    ],
    *["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2025-02-23", "ffffffff-ffff-7fff-bfff-ffffffffffff"],
    *[[], {}, [None], {"x": None}, [{"namespace": "a", "name": "b", "type": "TABLE"}], {"runId": "x"}],
]


def spoilt(dice: random.Random, node: Any) -> Any:
    """Return a copy in which one thing, anywhere, is something else."""
    if not isinstance(node, (dict, list)) or not node or dice.random() < 0.15:
        return dice.choice(JUNK)
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    chosen = dice.choice(keys)
    copied = node.copy()
    copied[chosen] = spoilt(dice, node[chosen])
    return copied


@pytest.mark.parametrize("seed", range(5))
def test_whatever_stands_anywhere_in_an_event_it_is_read_or_refused(seed: int) -> None:
    dice = random.Random(seed)
    events = [each for story in samples.ALL.values() for each in story]
    extractor, refused, read = Extractor(), 0, 0
    for _ in range(2000):
        value = json.dumps(spoilt(dice, dice.choice(events))).encode()
        try:
            event = parse(value)
        except MalformedEvent:
            refused += 1
        else:
            extractor.add(event)
            read += 1

    assert refused > 100
    assert read > 100
    facts = extractor.facts
    assert facts == unpacked(packed(facts))
    assert facts.datasets.keys() >= {key.dataset for key in (*facts.inputs, *facts.outputs)}
    assert facts.datasets.keys() >= {each for link in facts.symlinks for each in (link.source, link.target)}
    assert facts.datasets.keys() >= {each for row in facts.column_lineage for each in (row.source, row.target)}
    assert facts.jobs.keys() >= {run.job for run in facts.runs.values()}
    assert facts.jobs.keys() >= {job.parent for job in facts.jobs.values() if job.parent is not None}
    assert facts.runs.keys() >= {each.run_id for each in facts.operations.values()}
    assert facts.schemas.keys() >= {digest for _, digest in facts.dataset_schemas}
    assert facts.locations.keys() >= {key.location for key in facts.datasets}
    assert facts.users >= {run.started_by for run in facts.runs.values() if run.started_by is not None}
    assert not any("\0" in name for key in (facts.jobs, facts.datasets) for name in map(str, key))


def test_a_facet_that_is_null_says_nothing() -> None:
    event = samples.event("START", "2025-02-24T10:00:00Z", samples.CUSTOM, ("local", "j"), run_facets={"parent": None})
    extractor = Extractor()
    extractor.add(parse(json.dumps(event).encode()))

    assert {} == extractor.facts.run_facets
