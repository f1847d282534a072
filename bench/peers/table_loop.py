"""The loop by hand once more, into the table that ours makes: orjson, Arrow, Delta. At least once, no dead letters."""

import sys
import time
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, TopicPartition
from deltalake import write_deltalake

_ROWS_A_COMMIT = 500_000
_READ = pa.schema(
    [
        ("id", pa.int64()),
        ("customer", pa.string()),
        ("item", pa.string()),
        ("price", pa.float64()),
        ("quantity", pa.int32()),
        ("country", pa.string()),
        ("at", pa.string()),
        ("note", pa.string()),
        ("total", pa.float64()),
    ]
)

bootstrap, topic, total, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
began = time.perf_counter()
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": f"table-loop-{folder.name}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.queue.backoff.ms": 10,
    }
)
partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
read = 0
chunks, rows = [], 0


def write() -> None:
    """Add what was read to the table; only then is it committed."""
    table = pa.Table.from_batches(chunks)
    at = pc.strptime(table["at"], "%Y-%m-%dT%H:%M:%SZ", "us")
    table = table.set_column(6, "at", pc.assume_timezone(at, "UTC"))
    write_deltalake(str(folder / "table"), table, mode="append")
    consumer.commit(asynchronous=False)


while read < total:
    messages = consumer.consume(10_000, 0.5)
    events = []
    for message in messages:
        try:
            event = orjson.loads(message.value())
            if event["price"] >= 0 and 1 <= event["quantity"] <= 1000:
                event["total"] = event["price"] * event["quantity"]
                events.append(event)
        except (orjson.JSONDecodeError, KeyError, TypeError):
            continue
    read += len(messages)
    rows += len(events)
    if events:
        chunks.append(pa.RecordBatch.from_pylist(events, schema=_READ))
    if rows >= _ROWS_A_COMMIT:
        write()
        chunks, rows = [], 0
if chunks:
    write()
consumer.close()
print(time.perf_counter() - began)
