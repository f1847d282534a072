"""Process in batches, and commit only what is processed.

    python consume_manual_commit.py --topic orders --group billing

Start it in two terminals and watch the partitions move between them. Ctrl-C ends it in order.

Guarantee: at least once. The group's position moves only after a batch is processed, so a crash loses nothing;
the batch that was at hand comes again. Make processing repeatable, as here: an order is kept under its id, so
an order that comes twice counts once.
"""

import argparse
import json
import signal
import sys
from collections.abc import Iterable

import penstock
from penstock import Consumer, OwnershipLost, PenstockError


def names(partitions: Iterable[tuple[str, int]]) -> str:
    """Return partitions as text, such as orders/0 orders/2."""
    return " ".join(f"{topic}/{number}" for topic, number in sorted(partitions)) or "nothing"


def main() -> None:
    """Add up orders, batch by batch."""
    parser = argparse.ArgumentParser(description="Add up orders, committing after each batch.")
    parser.add_argument("--bootstrap", help="host:port of your Kafka; the local cluster if left out")
    parser.add_argument("--topic", default="orders", help="topic to read (default: orders)")
    parser.add_argument("--group", default="example-manual-commit", help="who remembers how far we got")
    parser.add_argument("--batch-size", type=int, default=100, help="a batch is full with so many (default: 100)")
    parser.add_argument("--batch-seconds", type=float, default=1.0, help="or after so long (default: 1)")
    parser.add_argument("--idle", type=float, default=10.0, help="end after so many seconds without a record")
    args = parser.parse_args()

    connection = penstock.connection(bootstrap=args.bootstrap)

    amount_of: dict[int, float] = {}
    committed = 0
    with Consumer(
        connection,
        [args.topic],
        args.group,
        # Both are called between two batches, when everything at hand is processed and committed already:
        # whoever takes a partition over begins right behind our last commit.
        on_assigned=lambda partitions: print(f"assigned {names(partitions)}", flush=True),
        on_revoked=lambda partitions: print(f"revoked {names(partitions)}", flush=True),
    ) as consumer:
        signal.signal(signal.SIGINT, lambda *_: consumer.stop())  # finish the current batch, then leave the group
        for batch in consumer.batches(max_events=args.batch_size, max_wait_s=args.batch_seconds, idle_s=args.idle):
            for message in batch:
                try:
                    order = json.loads(message.value() or b"")
                    amount_of[order["id"]] = float(order["amount"])
                except (ValueError, TypeError, KeyError) as error:
                    print(f"no order at {message.partition()}@{message.offset()}: {error!r}", flush=True)
            try:
                batch.commit()
            except OwnershipLost as lost:
                # Members came or went meanwhile. Nothing is lost: whoever owns the partitions from now on
                # begins behind the last commit that did succeed, so some of this may be processed twice.
                print(f"not committed: {lost}", flush=True)
                continue
            committed += len(batch)
            print(f"committed a batch of {len(batch)}, {committed} in all", flush=True)

    print(f"{committed} records committed; {len(amount_of)} orders over {sum(amount_of.values()):.2f}")


if __name__ == "__main__":
    try:
        main()
    except PenstockError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
