"""Bytewax: one worker, JSON lines into a file. Recovery is off."""

import sys
import time
from pathlib import Path

import bytewax.operators as op
import orjson
from bytewax.connectors.files import FileSink
from bytewax.connectors.kafka import KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main

bootstrap, topic, folder = sys.argv[1], sys.argv[2], Path(sys.argv[4])
began = time.perf_counter()


def parsed(message) -> tuple[str, str] | None:
    """Return the event with a key, or None for one that is no good."""
    try:
        event = orjson.loads(message.value)
        if event["price"] >= 0 and 1 <= event["quantity"] <= 1000:
            event["total"] = event["price"] * event["quantity"]
            return ("all", orjson.dumps(event).decode())
    except (orjson.JSONDecodeError, KeyError, TypeError):
        pass
    return None


flow = Dataflow("peer")
messages = op.input("in", flow, KafkaSource([bootstrap], [topic], tail=False, batch_size=10_000))
lines = op.filter_map("parse", messages, parsed)
op.output("out", lines, FileSink(folder / "events.jsonl"))
run_main(flow)
print(time.perf_counter() - began)
