"""Dead letters and ranges of sinks that got another name."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from penstock.config import settings
from penstock.delivery.selection import Filter, select
from penstock.errors import BadInput, Conflict
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.operate import replay as letter_replays

from support.pipelines import Lab, dying
from support.range_replays import begin, go_on, open_letters, write
from support.sink_targets import Target, rebuild, run


def odd_refused(postgres: RunningPostgres, orders: Target, *, refused: bool) -> None:
    """Let the table refuse the row of id 1, or not any more."""
    change = "ADD CONSTRAINT odd CHECK (id <> 1)" if refused else "DROP CONSTRAINT odd"
    with postgres.connect(orders.sink["server"]["database"]) as connection:
        connection.execute(f"ALTER TABLE orders {change}")


def replay_letters(lab: Lab, topic: str, *sinks: dict[str, Any]) -> None:
    given, file = settings.load(home=lab.kafka.home), write(lab, lab.document(topic, sinks=list(sinks)), "letters.yaml")
    letters = list(select(lab.connection, Filter(pipeline=topic)))
    letter_replays.run(given, letter_replays.begin(given, letters, file))


@pytest.mark.parametrize("still", [False, True])
def test_a_row_that_was_judged_dead_before_its_sink_got_another_name_has_one_letter_and_lands_by_that_alone(
    lab: Lab, target: Callable[[str, str], Target], postgres: RunningPostgres, *, still: bool
) -> None:
    topic, orders = lab.kafka.topic("judged"), target("postgres", "orders")
    run(lab, topic, orders.named("a"))
    odd_refused(postgres, orders, refused=True)
    lab.send_ids(topic, range(3))
    with dying("sink_committed:dead"):
        run(lab, topic, orders.named("a"))
    if not still:
        odd_refused(postgres, orders, refused=False)

    run(lab, topic, orders.named("b"))
    landed, letters = orders.ids, [(each.offset, each.sink) for each in lab.letters(topic)]
    if still:
        odd_refused(postgres, orders, refused=False)
    replay_letters(lab, topic, orders.named("a"))

    assert ([0, 2], [(1, "a")]) == (landed, letters)
    assert [0, 1, 2] == orders.ids


def test_a_range_with_letters_of_a_sink_by_its_former_name_is_replaced_once_these_are_replayed(
    lab: Lab, target: Callable[[str, str], Target], postgres: RunningPostgres
) -> None:
    topic, orders = lab.kafka.topic("replaced-renamed"), target("postgres", "orders")
    run(lab, topic, orders.named("a"))
    odd_refused(postgres, orders, refused=True)
    lab.send_ids(topic, range(3))
    run(lab, topic, orders.named("a"))
    odd_refused(postgres, orders, refused=False)
    run(lab, topic, orders.named("b"))
    begun = begin(lab, write(lab, lab.document(topic, sinks=[orders.named("b")])), "0", "3")

    with pytest.raises(Conflict, match="made for sink 'b' when that was called 'a'"):
        go_on(lab, begun)
    replay_letters(lab, topic, orders.named("a"))
    go_on(lab, begun)

    assert [0, 1, 2] == orders.ids
    assert [] == open_letters(lab, topic)


def test_a_table_that_is_filled_again_lacks_what_its_sink_has_letters_of_by_a_former_name(
    lab: Lab, target: Callable[[str, str], Target], postgres: RunningPostgres
) -> None:
    topic, orders = lab.kafka.topic("filled-again"), target("postgres", "orders")
    run(lab, topic, orders.named("a"))
    odd_refused(postgres, orders, refused=True)
    lab.send_ids(topic, range(3))
    for name in "ab":
        run(lab, topic, orders.named(name))
    odd_refused(postgres, orders, refused=False)
    with postgres.connect(orders.sink["server"]["database"]) as connection:
        connection.execute("TRUNCATE orders")

    rebuild(lab, topic, orders.named("b"))
    run(lab, topic, orders.named("b"))
    landed = orders.ids
    replay_letters(lab, topic, orders.named("a"))

    assert ([0, 2], [0, 1, 2]) == (landed, orders.ids)


def test_letters_of_a_sink_whose_name_another_one_has_by_now_are_not_sent_to_that_one(
    lab: Lab, target: Callable[[str, str], Target], postgres: RunningPostgres
) -> None:
    topic, orders, other = lab.kafka.topic("letters-swapped"), target("postgres", "orders"), target("delta", "other")
    run(lab, topic, orders.named("a"), other.named("b"))
    odd_refused(postgres, orders, refused=True)
    lab.send_ids(topic, range(3))
    with dying("sink_committed:dead"):
        run(lab, topic, orders.named("a"), other.named("b"))
    run(lab, topic, orders.named("b"), other.named("a"))
    odd_refused(postgres, orders, refused=False)

    with pytest.raises(BadInput, match="was made before that was called 'b', and 'a' writes elsewhere now"):
        replay_letters(lab, topic, orders.named("b"), other.named("a"))
    run(lab, topic, orders.named("a"), other.named("b"))
    replay_letters(lab, topic, orders.named("a"), other.named("b"))

    assert [0, 1, 2] == orders.ids == other.ids


def test_a_letter_of_a_sink_that_was_taken_out_is_none_of_the_sink_that_has_its_name_since(
    lab: Lab, target: Callable[[str, str], Target], postgres: RunningPostgres
) -> None:
    topic, orders, other = lab.kafka.topic("taken-out"), target("postgres", "orders"), target("delta", "other")
    run(lab, topic, orders.named("a"), other.named("b"))
    odd_refused(postgres, orders, refused=True)
    lab.send_ids(topic, range(3))
    run(lab, topic, orders.named("a"), other.named("b"))

    run(lab, topic, other.named("a"))
    with pytest.raises(BadInput, match="was made for another sink of that name"):
        replay_letters(lab, topic, other.named("a"))
    begun = begin(lab, write(lab, lab.document(topic, sinks=[other.named("a")])), "0", "3")
    with pytest.raises(Conflict, match="was made for another sink that was called 'a'"):
        go_on(lab, begun)
    with pytest.raises(Conflict, match="sink 'c' writes to where one called 'a' wrote, which was taken out"):
        run(lab, topic, other.named("a"), orders.named("c"))
    before = other.ids
    shutil.rmtree(other.sink["path"])
    rebuild(lab, topic, other.named("a"))
    run(lab, topic, other.named("a"))

    assert [0, 1, 2] == before == other.ids
