import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from penstock.broker.placement import Placement, TopicPartition, plan
from penstock.broker.rebalance import reassignments
from penstock.errors import Conflict


@dataclass(frozen=True)
class Case:
    seed: int
    before: Placement
    nodes: list[int]
    changes: Placement

    @property
    def after(self) -> Placement:
        return {**self.before, **self.changes}


def roll(seed: int) -> Case:
    """Make up topics with replicas anywhere, nodes that leave and nodes that are new and empty."""
    dice = random.Random(seed)
    old = dice.sample(range(1, 20), dice.randint(1, 6))
    staying = dice.sample(old, dice.randint(0, len(old)))
    new = [30 + number for number in range(dice.randint(0 if staying else 1, 3))]
    nodes = staying + new
    most_copies = min(3, len(old), len(nodes))
    before: Placement = {}
    for topic in range(dice.randint(1, 4)):
        replicas = dice.randint(1, most_copies)
        before |= {(f"t{topic}", number): dice.sample(old, replicas) for number in range(dice.randint(1, 9))}
    return Case(seed, before, nodes, plan(before, nodes))


CASES = [roll(seed) for seed in range(300)]


def spread(counts: Counter[int], nodes: list[int]) -> int:
    return max(counts[node] for node in nodes) - min(counts[node] for node in nodes)


def copies_of(placement: Placement, topic: str) -> Counter[int]:
    return Counter(node for (name, _), replicas in placement.items() if name == topic for node in replicas)


def broken(rule: Callable[[Case, TopicPartition], bool]) -> list[tuple[int, TopicPartition]]:
    return [
        (case.seed, topic_partition)
        for case in CASES
        for topic_partition in case.before
        if not rule(case, topic_partition)
    ]


def test_every_partition_keeps_its_number_of_copies() -> None:
    assert [] == broken(
        lambda case, topic_partition: len(case.before[topic_partition]) == len(case.after[topic_partition])
    )


def test_no_node_has_two_copies_of_a_partition() -> None:
    assert [] == broken(
        lambda case, topic_partition: len(set(case.after[topic_partition])) == len(case.after[topic_partition])
    )


def test_nodes_that_leave_end_empty() -> None:
    assert [] == broken(lambda case, topic_partition: set(case.after[topic_partition]) <= set(case.nodes))


def test_the_copies_of_each_topic_differ_by_one_at_most() -> None:
    assert [] == broken(
        lambda case, topic_partition: spread(copies_of(case.after, topic_partition[0]), case.nodes) <= 1
    )


def test_only_partitions_that_change_are_in_the_plan() -> None:
    assert [] == broken(lambda case, topic_partition: case.changes.get(topic_partition) != case.before[topic_partition])


def test_a_second_plan_finds_nothing_to_do() -> None:
    wrong = [case.seed for case in CASES if plan(case.after, case.nodes)]

    assert [] == wrong


def test_planning_leaves_what_it_was_given_alone() -> None:
    before: Placement = {("t", number): [1, 2] for number in range(4)}

    plan(before, [2, 3])

    assert {("t", number): [1, 2] for number in range(4)} == before


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("nodes", [3, 4, 5])
def test_nothing_moves_when_all_is_even(nodes: int, replicas: int) -> None:
    even: Placement = {
        (topic, number): [(number + replica) % nodes + 1 for replica in range(replicas)]
        for topic in ("a", "b")
        for number in range(2 * nodes)
    }

    assert {} == plan(even, list(range(1, nodes + 1)))


def test_a_new_node_gets_its_share_and_nothing_else_moves() -> None:
    before: Placement = {("t", number): [(number + replica) % 3 + 1 for replica in range(3)] for number in range(12)}

    after = {**before, **plan(before, [1, 2, 3, 4])}

    gone = [
        node for topic_partition, replicas in before.items() for node in set(replicas) - set(after[topic_partition])
    ]
    assert {1: 9, 2: 9, 3: 9, 4: 9} == copies_of(after, "t")
    assert 9 == len(gone)


def test_leaders_are_evened_out_without_moving_a_copy() -> None:
    before: Placement = {("t", number): [1, 2, 3] for number in range(9)}

    after = {**before, **plan(before, [1, 2, 3])}

    assert {1: 3, 2: 3, 3: 3} == Counter(replicas[0] for replicas in after.values())
    assert [{1, 2, 3}] * 9 == [set(replicas) for replicas in after.values()]


def test_topics_of_one_partition_are_spread_over_all_nodes() -> None:
    before: Placement = {(f"t{number}", 0): [1] for number in range(6)}

    after = {**before, **plan(before, [1, 2, 3])}

    assert {1: 2, 2: 2, 3: 2} == Counter(replicas[0] for replicas in after.values())


def test_too_few_nodes_for_the_copies_is_refused_before_anything_moves() -> None:
    with pytest.raises(Conflict) as caught:
        plan({("orders", 0): [1, 2], ("orders", 1): [1, 2]}, [1])

    expected = "orders/0 has 2 replicas, and 1 node would stay. No replica was given up."
    assert str(caught.value).startswith(expected)


def test_a_cluster_without_topics_needs_no_move() -> None:
    assert {} == plan({}, [1, 2])


def test_moves_that_are_under_way_count_as_where_they_will_end() -> None:
    said = """Current partition reassignments:
orders-0: replicas: 3,2,1. adding: 3. removing: 1.
my-log.x-12: replicas: 1,2. adding: 2.
shrinking-1: replicas: 2,1. removing: 1.
"""

    expected = {("orders", 0): [3, 2], ("my-log.x", 12): [1, 2], ("shrinking", 1): [2]}
    assert expected == reassignments(said)
    assert {} == reassignments("No partition reassignments found.\n")
