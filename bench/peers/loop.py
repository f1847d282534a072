"""A loop as one writes it by hand: confluent-kafka, orjson, one file of JSON lines. At least once, no dead letters."""

import sys
import time
from pathlib import Path

import orjson
from confluent_kafka import Consumer, TopicPartition

bootstrap, topic, total, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
began = time.perf_counter()
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": f"loop-{folder.name}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.queue.backoff.ms": 10,
    }
)
partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
read = 0
with (folder / "events.jsonl").open("wb") as out:
    while read < total:
        messages = consumer.consume(10_000, 0.5)
        lines = []
        for message in messages:
            try:
                event = orjson.loads(message.value())
                if event["price"] >= 0 and 1 <= event["quantity"] <= 1000:
                    event["total"] = event["price"] * event["quantity"]
                    lines.append(orjson.dumps(event))
            except (orjson.JSONDecodeError, KeyError, TypeError):
                continue
        out.write(b"\n".join(lines) + b"\n" if lines else b"")
        out.flush()
        if messages:
            consumer.commit(asynchronous=True)
        read += len(messages)
consumer.close()
print(time.perf_counter() - began)
