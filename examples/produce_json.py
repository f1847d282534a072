"""Send orders as JSON, with a key and headers, and print what Kafka acknowledged.

    penstock up                                        # or name your own Kafka with --bootstrap host:port
    python produce_json.py --count 100

Guarantee: an order that is reported as acknowledged is in the topic exactly once. Orders of one customer are
in one partition, in the order they were sent. If any order is not in the topic, the program says how many
and ends with exit code 8.
"""

import argparse
import contextlib
import json
import sys
from collections import Counter
from datetime import UTC, datetime

from confluent_kafka import KafkaError, Message

import penstock
from penstock import Admin, Conflict, PenstockError, Producer, TopicSpec
from penstock.kafka import topics

CUSTOMERS = 10


def main() -> None:
    """Make the topic if it is missing, send, and report."""
    parser = argparse.ArgumentParser(description="Send orders as JSON.")
    parser.add_argument("--bootstrap", help="host:port of your Kafka; the local cluster if left out")
    parser.add_argument("--topic", default="orders", help="topic to send to, made if missing (default: orders)")
    parser.add_argument("--count", type=int, default=100, help="how many orders to send (default: 100)")
    args = parser.parse_args()

    connection = penstock.connection(bootstrap=args.bootstrap)

    # Kafka itself settles who makes the topic: asking first whether it is there would race with other producers.
    with contextlib.suppress(Conflict):
        topics.create(Admin(connection), args.topic, TopicSpec(partitions=3))

    acknowledged: Counter[int] = Counter()

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        # Called once for every order, when Kafka has it or has refused it for good.
        if error is None:
            acknowledged[int(message.partition() or 0)] += 1

    # Leaving the block waits for every acknowledgement, and raises DeliveryFailed if one did not come.
    with Producer(connection, on_delivery=on_delivery) as producer:
        for number in range(args.count):
            name, at = f"customer-{number % CUSTOMERS}", datetime.now(UTC).isoformat()
            order = {"id": number, "name": name, "amount": 5.0 + number, "at": at}
            producer.send(
                args.topic,
                json.dumps(order),
                key=name,  # the key chooses the partition, and order holds inside a partition
                headers={"content-type": "application/json", "sent-by": "produce_json.py"},
            )

    for partition, orders in sorted(acknowledged.items()):
        print(f"{args.topic}/{partition}: {orders} acknowledged")
    print(f"{acknowledged.total()} of {args.count} orders acknowledged")


if __name__ == "__main__":
    try:
        main()
    except PenstockError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
