"""A pipeline for the tests of the testing kit, and the times of the messages that it saw."""

import datetime
from typing import Any

from penstock import Message, Pipeline, PipelineSpec
from penstock.decoders.json import Json
from penstock.sinks.console import Console
from penstock.sources.kafka import Kafka

NOON = datetime.datetime(2026, 5, 6, 12, tzinfo=datetime.UTC)
times: list[datetime.datetime | None] = []


def spec(**more: Any) -> PipelineSpec:
    parts = {
        "name": "combat",
        "source": Kafka(topics=["hits"]),
        "decode": Json(schema="id bigint NOT NULL, s string"),
        "sinks": [Console()],
    }
    return PipelineSpec.model_validate({**parts, **more})


class Timely(Pipeline):
    name = "timely"
    source = Kafka(topics=["hits"])
    decode = Json(schema="id bigint")
    sinks = (Console(),)

    def handle_message(self, message: Message) -> Message:
        times.append(message.timestamp)
        return message
