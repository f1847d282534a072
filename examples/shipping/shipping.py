"""Orders from Kafka into a Delta table: checked, enriched, in euros, in two lanes, with their share of the shipping.

    penstock up
    penstock topic create orders --partitions 3
    penstock produce orders shipping/orders.jsonl
    penstock pipeline run shipping/shipping.py
    penstock table show shipping/tables/shipping

Guarantee: every order in the topic is in the table once, or a dead letter, or a test order and counted as dropped. The
two lookups may be called more than once for the same order. The tests beside this file need no Kafka and no Spark.
"""

import csv
from decimal import Decimal
from pathlib import Path

from penstock import Batcher, BatchInfo, Message, OnFailure, Pipeline, Transient

CUSTOMERS = Path(__file__).with_name("customers.csv")
EUROS = {"EUR": Decimal(1), "USD": Decimal("0.92"), "GBP": Decimal("1.17")}
PARCEL = {"FR": Decimal("4.00"), "DE": Decimal("5.00"), "US": Decimal("18.00")}
CENT = Decimal("0.01")
LARGE = Decimal(1000)


def customers(wanted: set[str]) -> dict[str, dict[str, str]]:
    """Look up many customers at once. Here a file; elsewhere a query or a request."""
    try:
        with CUSTOMERS.open() as file:
            return {row["name"]: row for row in csv.DictReader(file) if row["name"] in wanted}
    except OSError as error:
        raise Transient(f"the customers cannot be read: {error}") from error


def freight(country: str, parcels: int) -> Decimal:
    """Return the price of sending so many parcels to a country together. Elsewhere a carrier's service."""
    if country not in PARCEL:
        raise LookupError(f"no carrier goes to {country}")
    return PARCEL[country] * (1 + parcels) / 2


class Shipping(Pipeline):
    """Each order alone: is it one, whose is it, what is it in euros. Each batch: what does sending it cost."""

    name = "shipping"
    source = {"topics": ["orders"], "start": "earliest"}
    decode = {
        "type": "json",
        "schema": "id bigint NOT NULL, name string NOT NULL, amount decimal(12,2) NOT NULL,"
        " currency string, at timestamp",
    }
    batchers = {
        "default": Batcher(batch_size=100, batch_timeout="2s", max_bytes="1MB"),
        "express": Batcher(batch_size=10, batch_timeout="500ms"),
    }
    on_failure = OnFailure(then="retry", attempts=3, backoff="200ms")
    returns = (
        "id bigint NOT NULL, name string NOT NULL, country string NOT NULL, euros decimal(12,2) NOT NULL,"
        " shipping decimal(12,2) NOT NULL, at timestamp"
    )
    batcher_column = "lane"
    sinks = [{"type": "delta", "path": "tables/shipping"}]
    speed = "scheduled"

    def prepare_messages(self, messages: list[Message]) -> list[Message]:
        """Find the customers of all these orders with one lookup."""
        known = customers({message.data["name"] for message in messages})
        for message in messages:
            found = known.get(message.data["name"], {})
            message.data.update(country=found.get("country"), tier=found.get("tier"))
        return messages

    def handle_message(self, message: Message) -> Message:
        """Check one order, convert it, and choose its lane."""
        order = message.data
        currency = order["currency"] or "EUR"
        if order["name"] == "test":
            return message.drop()
        if order["amount"] <= 0:
            return message.failed(f"the amount is {order['amount']}")
        if currency not in EUROS:
            return message.failed(f"no rate for {currency}")
        if order["country"] is None:
            return message.failed(f"nobody knows {order['name']}")
        order["euros"] = (order["amount"] * EUROS[currency]).quantize(CENT)
        if order["tier"] == "gold" or order["euros"] >= LARGE:
            message.put_batcher("express")
        return message.put_batch_key(order["country"])

    def handle_batch(self, batcher: str, messages: list[Message], info: BatchInfo) -> list[Message]:
        """Share the freight of one country among the orders that travel together; express travels alone."""
        parcels = 1 if batcher == "express" else info.size
        share = (freight(info.batch_key, parcels) / parcels).quantize(CENT)
        for message in messages:
            message.data["shipping"] = share
        return messages

    def handle_failed(self, messages: list[Message]) -> None:
        """Name the reason as the people who read dead letters know it."""
        for message in messages:
            if message.error is not None and message.error["error"] == "LookupError":
                message.failed(f"order {message.data['id']} cannot be sent: {message.error['message']}")
