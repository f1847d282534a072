"""The simplest consumer: a group whose position moves by itself.

    python consume.py --topic orders --group my-first-group

Run it again and it goes on where it stopped. Run it twice at once, and the two share the partitions.

What a crash costs: about every five seconds, and when the program ends in order, the group's position moves
behind what was handed out, whether or not your code was done with it. So a crash can LOSE the current record,
and it can DOUBLE the records since the position last moved. That is fine for a dashboard, and wrong for money:
consume_manual_commit.py loses nothing, delivery_semantics.py shows how to double nothing either.
"""

import argparse
import signal
import sys
from collections import Counter

import penstock
from penstock import Consumer, ConsumerOptions, PenstockError


def main() -> None:
    """Print records until there were enough, or none for ten seconds."""
    parser = argparse.ArgumentParser(description="Print the records of a topic as a group.")
    parser.add_argument("--bootstrap", help="host:port of your Kafka; the local cluster if left out")
    parser.add_argument("--topic", default="orders", help="topic to read (default: orders)")
    parser.add_argument("--group", default="example-consume", help="who remembers how far we got")
    parser.add_argument("--count", type=int, default=0, help="end after so many; 0: only when none come (default)")
    parser.add_argument("--idle", type=float, default=10.0, help="end after so many seconds without a record")
    args = parser.parse_args()

    connection = penstock.connection(bootstrap=args.bootstrap)

    read_from: Counter[int] = Counter()
    # Leaving the block commits the position a last time and leaves the group.
    with Consumer(connection, [args.topic], args.group, ConsumerOptions(commit="automatic")) as consumer:
        signal.signal(signal.SIGINT, lambda *_: consumer.stop())  # Ctrl-C ends in order, too
        # One at a time: what is handed out counts as read, so a batch left half way would be lost.
        for batch in consumer.batches(max_events=1, idle_s=args.idle):
            for message in batch:
                key, value = message.key() or b"", message.value() or b""
                read_from[int(message.partition() or 0)] += 1
                print(f"{args.topic}/{message.partition()}@{message.offset()} {key.decode()} {value.decode()}")
            if read_from.total() == args.count:
                break

    for partition, records in sorted(read_from.items()):
        print(f"{args.topic}/{partition}: {records} read")
    print(f"{read_from.total()} records read as group {args.group}")


if __name__ == "__main__":
    try:
        main()
    except PenstockError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
