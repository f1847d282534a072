"""Sinks that get another name: what they have written before neither comes twice nor is left out."""

import json
import shutil
from collections.abc import Callable

import pytest

from penstock.errors import CheckpointLost, Conflict, PositionLost
from penstock.kafka import groups
from penstock.lab.bench.throwaway_postgres import RunningPostgres

from support.pipelines import Lab, dying
from support.sink_targets import Target, rebuild, run

KINDS = ["delta", "iceberg", "json", "kafka", "postgres"]


def test_a_sink_by_another_name_gets_nothing_twice_although_others_were_taken_out_before(lab: Lab) -> None:
    topic = lab.kafka.topic("renamed")
    other = {"type": "delta", "name": "other", "path": str(lab.folder / "other")}
    orders = {"type": "delta", "path": str(lab.table)}

    for number, sinks in enumerate([[orders, other], [orders], [{**orders, "name": "orders"}]]):
        lab.send_ids(topic, range(3 * number, 3 * number + 3))
        lab.run(lab.spec(topic, sinks=sinks))

    assert list(range(9)) == lab.ids()


@pytest.mark.parametrize("kind", KINDS)
def test_a_sink_that_is_renamed_while_another_has_to_catch_up_gets_nothing_twice(
    lab: Lab, target: Callable[[str, str], Target], kind: str
) -> None:
    topic, orders, other = lab.kafka.topic("renamed"), target(kind, "orders"), target("delta", "other")
    lab.send_ids(topic, range(3))
    run(lab, topic, orders.named("a"), other.named("other"))
    lab.send_ids(topic, range(3, 6))
    with dying("sink_committed:a"):
        run(lab, topic, orders.named("a"), other.named("other"))

    run(lab, topic, orders.named("b"), other.named("other"))
    lab.send_ids(topic, range(6, 9))
    run(lab, topic, orders.named("b"), other.named("other"))

    assert list(range(9)) == orders.ids == other.ids


@pytest.mark.parametrize("kind", KINDS)
def test_a_sink_that_gets_its_former_name_back_gets_nothing_twice(
    lab: Lab, target: Callable[[str, str], Target], kind: str
) -> None:
    topic, orders = lab.kafka.topic("there-and-back", partitions=2), target(kind, "orders")

    for number, name in enumerate("abba"):
        # The second partition is idle while the sink has its other name.
        lab.send_ids(topic, range(3 * number, 3 * number + 3), partition=number % 2 if name == "a" else 0)
        run(lab, topic, orders.named(name))
    run(lab, topic, orders.named("a"))

    assert list(range(12)) == orders.ids


@pytest.mark.parametrize("kind", KINDS)
def test_two_sinks_that_exchange_their_names_while_one_has_to_catch_up_lose_and_double_nothing(
    lab: Lab, target: Callable[[str, str], Target], kind: str
) -> None:
    topic, orders, other = lab.kafka.topic("swapped"), target(kind, "orders"), target(kind, "other")
    lab.send_ids(topic, range(3))
    run(lab, topic, orders.named("a"), other.named("b"))
    lab.send_ids(topic, range(3, 6))
    with dying("sink_committed:a"):
        run(lab, topic, orders.named("a"), other.named("b"))

    # It dies when the first of the two stands under its new name, and the other does not.
    with dying("in_commit:a"):
        run(lab, topic, orders.named("b"), other.named("a"))
    for number in range(2):
        run(lab, topic, orders.named("b"), other.named("a"))
        lab.send_ids(topic, range(3 * number + 6, 3 * number + 9))
    run(lab, topic, orders.named("a"), other.named("b"))

    assert list(range(12)) == orders.ids == other.ids


@pytest.mark.parametrize("kind", KINDS)
def test_a_sink_that_is_renamed_after_its_checkpoint_was_lost_gets_nothing_twice(
    lab: Lab, target: Callable[[str, str], Target], kind: str
) -> None:
    topic, orders = lab.kafka.topic("lost-and-renamed"), target(kind, "orders")
    lab.send_ids(topic, range(3))
    run(lab, topic, orders.named("a"))
    shutil.rmtree(lab.home(topic).checkpoint)
    lab.send_ids(topic, range(3, 6))

    with pytest.raises(CheckpointLost):
        run(lab, topic, orders.named("b"))
    rebuilt = "b"
    try:
        rebuild(lab, topic, orders.named("b"))
    except Conflict:
        # Nobody can know that it is the same sink, unless it gets its former name back.
        rebuilt = "a"
        rebuild(lab, topic, orders.named("a"))
    for name in (rebuilt, "b"):
        run(lab, topic, orders.named(name))

    assert list(range(6)) == orders.ids


@pytest.mark.parametrize("kind", KINDS)
def test_old_copies_of_the_checkpoint_and_rebuilding_double_nothing_of_a_sink_that_was_renamed(
    lab: Lab, target: Callable[[str, str], Target], kind: str
) -> None:
    topic, orders, other = lab.kafka.topic("old-and-renamed"), target(kind, "orders"), target("delta", "other")
    checkpoint, copy = lab.home(topic).checkpoint, lab.folder / "copy"
    lab.send_ids(topic, range(3))
    run(lab, topic, orders.named("a"), other.named("other"))
    shutil.copytree(checkpoint, copy)
    lab.send_ids(topic, range(3, 6))
    with dying("sink_committed:a"):
        run(lab, topic, orders.named("a"), other.named("other"))
    rebuild(lab, topic, orders.named("b"), other.named("other"))
    lab.send_ids(topic, range(6, 9))
    run(lab, topic, orders.named("b"), other.named("other"))
    shutil.rmtree(checkpoint)
    copy.rename(checkpoint)
    lab.send_ids(topic, range(9, 12))

    run(lab, topic, orders.named("b"), other.named("other"))

    assert list(range(12)) == orders.ids == other.ids


@pytest.mark.parametrize("change", ["VACUUM FULL", "TRUNCATE"])
def test_a_table_of_postgresql_is_known_by_its_rows_under_the_new_name_too(
    lab: Lab, target: Callable[[str, str], Target], postgres: RunningPostgres, change: str
) -> None:
    topic, orders = lab.kafka.topic("known"), target("postgres", "orders")
    lab.send_ids(topic, range(3))
    run(lab, topic, orders.named("a"))
    run(lab, topic, orders.named("b"))
    with postgres.connect(orders.sink["server"]["database"]) as connection:
        connection.autocommit = True  # which VACUUM insists on
        connection.execute(f"{change} orders")
    lab.send_ids(topic, range(3, 6))

    if change == "TRUNCATE":
        with pytest.raises(PositionLost):
            run(lab, topic, orders.named("b"))
        rebuild(lab, topic, orders.named("b"))
    run(lab, topic, orders.named("b"))

    assert list(range(6)) == orders.ids


@pytest.mark.parametrize("truncated", ["orders", "other"])
def test_tables_of_postgresql_whose_sinks_exchanged_their_names_are_known_by_their_rows(
    lab: Lab, target: Callable[[str, str], Target], postgres: RunningPostgres, truncated: str
) -> None:
    topic, targets = lab.kafka.topic("exchanged"), {name: target("postgres", name) for name in ("orders", "other")}
    lab.send_ids(topic, range(3))
    run(lab, topic, targets["orders"].named("a"), targets["other"].named("b"))
    swapped = [targets["orders"].named("b"), targets["other"].named("a")]
    run(lab, topic, *swapped)
    with postgres.connect(targets["orders"].sink["server"]["database"]) as connection:
        connection.execute(f"TRUNCATE {truncated}")
    lab.send_ids(topic, range(3, 6))

    with pytest.raises(PositionLost):
        run(lab, topic, *swapped)
    rebuild(lab, topic, *swapped)
    run(lab, topic, *swapped)

    assert list(range(6)) == targets["orders"].ids == targets["other"].ids


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_another_table_was_to_get_goes_back_to_the_one_that_it_had_and_nothing_comes_twice(
    lab: Lab, target: Callable[[str, str], Target], kind: str
) -> None:
    topic, orders, other = lab.kafka.topic("taken-back"), target(kind, "orders"), target(kind, "other")
    lab.send_ids(topic, range(3))
    run(lab, topic, orders.named("a"))
    lab.send_ids(topic, range(3, 6))

    with pytest.raises(PositionLost, match="sink 'a'"):
        run(lab, topic, other.named("a"), orders.named("b"))
    run(lab, topic, orders.named("b"))
    lab.send_ids(topic, range(6, 9))
    run(lab, topic, orders.named("a"))

    assert list(range(9)) == orders.ids


@pytest.mark.parametrize("ran", [False, True])
def test_a_table_that_is_named_with_its_schema_from_now_on_is_the_one_that_it_was_under_another_name_too(
    lab: Lab, target: Callable[[str, str], Target], *, ran: bool
) -> None:
    topic, orders, other = lab.kafka.topic("respelt"), target("postgres", "orders"), target("delta", "other")
    respelt = Target({**orders.sink, "table": "public.orders"}, orders.read)
    lab.send_ids(topic, range(3))
    run(lab, topic, orders.named("a"), other.named("other"))
    lab.send_ids(topic, range(3, 6))
    with dying("sink_committed:a"):
        run(lab, topic, (respelt if ran else orders).named("a"), other.named("other"))

    run(lab, topic, respelt.named("b"), other.named("other"))

    assert list(range(6)) == orders.ids == other.ids


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_that_does_not_know_yet_what_sinks_write_to_lets_none_be_renamed_into_doubling(
    lab: Lab, target: Callable[[str, str], Target], kind: str
) -> None:
    topic, orders, other = lab.kafka.topic("of-before"), target(kind, "orders"), target("delta", "other")
    committed = lab.home(topic).checkpoint / "committed.json"
    lab.send_ids(topic, range(3))
    run(lab, topic, orders.named("a"), other.named("other"))
    lab.send_ids(topic, range(3, 6))
    with dying("sink_committed:a"):
        run(lab, topic, orders.named("a"), other.named("other"))
    known = json.loads(committed.read_text())
    committed.write_text(json.dumps({key: known[key] for key in known.keys() - {"targets", "moves", "formerly"}}))

    run(lab, topic, orders.named("b"), other.named("other"))

    assert list(range(6)) == orders.ids == other.ids


@pytest.mark.parametrize("lost", [False, True])
def test_positions_of_a_renamed_kafka_sink_that_kafka_forgot_are_not_taken_for_those_of_one_that_never_wrote(
    lab: Lab, target: Callable[[str, str], Target], *, lost: bool
) -> None:
    topic, orders = lab.kafka.topic("renamed-forgotten"), target("kafka", "orders")
    lab.send_ids(topic, range(3))
    run(lab, topic, orders.named("a"))
    lab.send_ids(topic, range(3, 6))
    with dying("sink_committed:a"):
        run(lab, topic, orders.named("a"))
    for suffix in ("", ".dead", ".a"):
        groups.delete(lab.kafka.admin(), f"penstock.{topic}{suffix}")
    if lost:
        shutil.rmtree(lab.home(topic).checkpoint)

    with pytest.raises(Conflict, match=f"with the group penstock.{topic}.a"):
        rebuild(lab, topic, orders.named("b"))
    rebuild(lab, topic, orders.named("a"))
    for name in "ab":
        run(lab, topic, orders.named(name))

    assert list(range(6)) == orders.ids


def test_a_sink_that_comes_back_gets_nothing_twice_once_another_has_got_its_name(
    lab: Lab, target: Callable[[str, str], Target]
) -> None:
    topic, orders, other = lab.kafka.topic("ousted"), target("delta", "orders"), target("delta", "other")
    run(lab, topic, orders.named("a"), other.named("b"))
    lab.send_ids(topic, range(3))
    with dying("sink_committed:a"):
        run(lab, topic, orders.named("a"), other.named("b"))
    with dying("prepared"):
        run(lab, topic, other.named("a"))

    with pytest.raises(Conflict, match="where to go on is not known"):
        run(lab, topic, other.named("a"), orders.named("c"))
    run(lab, topic, orders.named("a"), other.named("c"))

    assert [0, 1, 2] == orders.ids == other.ids
