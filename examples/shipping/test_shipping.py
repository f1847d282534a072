"""The orders, tested in seconds: no Kafka, no Spark, the handlers as they run in production."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from penstock import Transient
from penstock.testing import FakeClock, Record, run

import shipping
from shipping import Shipping


def order(number: int = 1, name: str = "bob", amount: float = 10, currency: str = "EUR") -> dict[str, Any]:
    return {"id": number, "name": name, "amount": amount, "currency": currency}


def test_an_order_gets_its_country_its_euros_its_lane_and_its_shipping() -> None:
    outcome = run(Shipping, [order(amount=10, currency="USD")])

    assert [
        {
            "id": 1,
            "name": "bob",
            "country": "DE",
            "euros": Decimal("9.20"),
            "shipping": Decimal("5.00"),
            "at": None,
            "lane": "default",
        }
    ] == outcome.rows


def test_orders_that_travel_together_share_the_freight() -> None:
    outcome = run(Shipping, [order(1, "bob"), order(2, "cy"), order(3, "dan")])

    assert [Decimal("3.75"), Decimal("3.75"), Decimal("18.00")] == [row["shipping"] for row in outcome.rows]
    assert {"flush": 2} == outcome.handlers["batches"]["default"]


def test_gold_customers_and_large_orders_go_by_express_and_share_nothing() -> None:
    outcome = run(Shipping, [order(1, "ada"), order(2, "bob", amount=1000), order(3, "bob", amount=999)])

    assert ["express", "express", "default"] == [row["lane"] for row in outcome.rows]
    assert [Decimal("4.00"), Decimal("5.00"), Decimal("5.00")] == [row["shipping"] for row in outcome.rows]


def test_a_full_batch_does_not_wait_and_rows_keep_the_order_of_their_partition() -> None:
    numbers = list(range(25))

    outcome = run(Shipping, [order(number, "ada" if number % 2 else "bob") for number in numbers])

    assert numbers == [row["id"] for row in outcome.rows]
    assert {"size": 1, "flush": 1} == outcome.handlers["batches"]["express"]


def test_a_batch_never_mixes_two_partitions() -> None:
    outcome = run(Shipping, [Record(order(1)), Record(order(2), partition=1)])

    assert [Decimal("5.00"), Decimal("5.00")] == [row["shipping"] for row in outcome.rows]


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (order(amount=-3), "the amount is -3.00"),
        (order(currency="XAU"), "no rate for XAU"),
        (order(name="zoe"), "nobody knows zoe"),
        (order(name="eve"), "order 1 cannot be sent: no carrier goes to AQ"),
    ],
)
def test_a_wrong_order_is_a_dead_letter_that_says_why_and_the_next_one_goes_on(
    wrong: dict[str, Any], reason: str
) -> None:
    with FakeClock():
        outcome = run(Shipping, [wrong, order(2)])

    assert [2] == [row["id"] for row in outcome.rows]
    assert [(0, "handler", "MessageFailed", reason)] == [
        (letter.offset, letter.stage, letter.error, letter.message) for letter in outcome.dead
    ]


def test_what_is_no_order_at_all_is_a_dead_letter_of_the_decoder() -> None:
    outcome = run(Shipping, ["no json", {"id": 1, "name": "bob"}, order(2)])

    assert ["decode", "decode"] == [letter.stage for letter in outcome.dead]
    assert ["Malformed", "SchemaMismatch"] == [letter.error for letter in outcome.dead]
    assert b"no json" == outcome.dead[0].value
    assert [2] == [row["id"] for row in outcome.rows]


def test_test_orders_are_dropped_and_counted() -> None:
    outcome = run(Shipping, [order(1, "test"), order(2)])

    assert (2, 1, [], {"delta": 1}) == (outcome.read, len(outcome.rows), outcome.dead, outcome.dropped)


def test_all_customers_are_found_with_one_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[set[str]] = []

    def customers(wanted: set[str]) -> dict[str, dict[str, str]]:
        asked.append(wanted)
        return {name: {"country": "DE", "tier": "plain"} for name in wanted}

    monkeypatch.setattr(shipping, "customers", customers)

    run(Shipping, [order(1, "bob"), order(2, "cy"), order(3, "bob")])

    assert [{"bob", "cy"}] == asked


def test_a_carrier_that_stumbles_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def freight(country: str, _parcels: int) -> Decimal:
        calls.append(country)
        if len(calls) < 3:
            raise ConnectionError("reset by peer")
        return Decimal("5.00")

    monkeypatch.setattr(shipping, "freight", freight)
    with FakeClock() as clock:
        outcome = run(Shipping, [order()])

    assert (1, [], [0.2, 0.4]) == (len(outcome.rows), outcome.dead, clock.slept_s)


def test_customers_that_cannot_be_read_are_an_outage_and_no_orders_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shipping, "CUSTOMERS", tmp_path / "nowhere.csv")

    with pytest.raises(Transient, match="the customers cannot be read"):
        run(Shipping, [order()])
