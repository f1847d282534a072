"""What operations read and wrote, as columns and back."""

import random
from uuid import UUID

import pytest

from penstock.lineage.collected import Facts
from penstock.lineage.keys import time_of
from penstock.lineage.store import tables
from penstock.lineage.store.using import moments
from penstock.lineage.uses import taken

from support.lineage_stories import facts_of, random_events


@pytest.mark.parametrize("seed", range(5))
def test_what_was_taken_is_put_back_as_it_was(seed: int) -> None:
    facts = facts_of(random_events(random.Random(seed), 150))

    left, uses = taken(facts)
    rest = uses.put_back(left, uses.operations())

    assert facts == left
    assert set() == rest.operations()


def test_only_uses_that_say_their_own_time_are_taken() -> None:
    left, uses = taken(facts_of(random_events(random.Random(1), 150)))

    assert len(uses.inputs) > 0
    assert len(left.inputs) > 0
    assert all(time_of(key.operation_id) != key.created_at for key in left.inputs)


def test_the_others_stay_when_some_are_put_back() -> None:
    facts = facts_of(random_events(random.Random(2), 150))
    left, uses = taken(facts)
    some = set(sorted(uses.operations())[:1])

    rest = uses.put_back(left, some)
    rest.put_back(left, rest.operations())

    assert uses.operations() - some == rest.operations()
    assert facts == left


def test_nothing_is_taken_of_nothing() -> None:
    left, uses = taken(Facts())

    assert Facts() == left
    assert 0 == len(uses.inputs) == len(uses.outputs) == len(uses.column_lineage)


def test_partitions_are_made_for_the_first_and_the_last_moment_of_each_day_and_for_none_of_nothing() -> None:
    _, uses = taken(facts_of(random_events(random.Random(3), 150)))
    times = {time_of(UUID(bytes=each)) for each in uses.inputs["operation"].tolist()}

    assert {tables.input_: times} == {table: found for table, found in moments([uses]) if table is tables.input_}
    assert [set()] * 3 == [found for _, found in moments([])]
    assert [set()] * 3 == [found for _, found in moments([taken(Facts())[1]])]
