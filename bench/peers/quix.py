"""Quix Streams: a batching sink that writes JSON lines. At least once."""

import sys
import time
from pathlib import Path

import orjson
from quixstreams import Application
from quixstreams.sinks import BatchingSink, SinkBatch

bootstrap, topic, folder = sys.argv[1], sys.argv[2], Path(sys.argv[4])
began = ended = time.perf_counter()


class Lines(BatchingSink):
    """Appends each batch to a file."""

    def write(self, batch: SinkBatch) -> None:
        """Write a batch."""
        global ended  # noqa: PLW0603 - the time of the last batch
        with (folder / "events.jsonl").open("ab") as out:
            out.writelines(orjson.dumps(item.value) + b"\n" for item in batch)
        ended = time.perf_counter()


def parsed(value: bytes) -> dict[str, object] | None:
    """Return the event, or None for one that is no good."""
    try:
        event = orjson.loads(value)
        if event["price"] >= 0 and 1 <= event["quantity"] <= 1000:
            event["total"] = event["price"] * event["quantity"]
            return event
    except (orjson.JSONDecodeError, KeyError, TypeError):
        pass
    return None


app = Application(
    broker_address=bootstrap,
    consumer_group=f"quix-{folder.name}",
    auto_offset_reset="earliest",
    loglevel="ERROR",
    commit_interval=1.0,
)
frame = app.dataframe(app.topic(topic, value_deserializer="bytes"))
frame = frame.apply(parsed).filter(lambda event: event is not None)
frame.sink(Lines())
app.run(timeout=5.0)  # ends so long after the last message
print(ended - began)
