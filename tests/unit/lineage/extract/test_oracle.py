"""Facts compared with an independent reading of the same events, after shuffles, duplicates and malformed values."""

import random

import pytest

from penstock.lineage.collected import Facts, packed, unpacked
from penstock.lineage.events import MalformedEvent, parse
from penstock.lineage.extract import Extractor

from support.lineage_content import of_facts
from support.lineage_history import MALFORMED, values
from support.lineage_oracle import content


def facts_of(listed: list[bytes]) -> tuple[Facts, int]:
    """Return the facts, and how many values were refused."""
    extractor, refused = Extractor(), 0
    for value in listed:
        try:
            extractor.add(parse(value))
        except MalformedEvent:
            refused += 1
    return extractor.facts, refused


@pytest.mark.parametrize("seed", range(6))
def test_facts_are_what_an_independent_reading_finds(seed: int) -> None:
    listed = values(seed, 120)

    facts, refused = facts_of(listed)

    expected, actual = content(listed, united=False), of_facts(facts)
    for what, held in expected.items():
        assert held == actual[what], what
    assert expected.keys() == actual.keys()
    assert sum(value in MALFORMED for value in listed) == refused > 0


@pytest.mark.parametrize("seed", range(3))
def test_batches_in_any_order_give_the_same_facts(seed: int) -> None:
    dice = random.Random(seed)
    listed = values(seed, 60)
    expected, _ = facts_of(listed)
    dice.shuffle(listed)
    batches = [listed[at : at + 37] for at in range(0, len(listed), 37)]
    batches += dice.choices(batches, k=3)

    merged = Facts()
    for batch in batches:
        merged.merge(unpacked(packed(facts_of(batch)[0])))

    assert expected == merged


def test_the_history_has_something_of_everything() -> None:
    held = content(values(2, 300))

    assert all(held.values()), [what for what, found in held.items() if not found]
    assert {-1, 0, 1, 2, 3} == {run["status"] for run in held["runs"].values()}
    assert any(run["started_at"] and "ended_at" not in run for run in held["runs"].values() if "started_at" in run)
    assert {"BATCH", "STREAMING"} <= {each.get("type") for each in held["operations"].values()}
    assert any(len(found) > 1 for found in held["locations"].values())
    assert len({operation for operation, _, _ in held["inputs"]}) < len(held["inputs"])
