"""Days of stories, one after the other; most of them begin at the hours at which every house starts its jobs."""

import datetime
import random
from collections.abc import Iterator
from itertools import count

import orjson
from pydantic import BaseModel, Field, model_validator

from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.topic_spec import TopicSpec
from penstock.lineage.gateway.events import lineage_record
from penstock.lineage.gateway.options import LINEAGE_TOPIC
from penstock.lineage.seed.house import Json
from penstock.lineage.seed.story import STORIES, EventWriter, flink

_BUSY_HOURS = (0, 0, 0, 1, 1, 3, 3, 12, 12)
_STREAM_DAYS = 30
_PARTITIONS = 4


class SeedOptions(BaseModel, frozen=True, extra="forbid"):
    """Which history."""

    start: datetime.date = Field(description="First day.")
    end: datetime.date = Field(description="Last day.")
    min_runs: int = Field(50, ge=1, description="Runs a day, at least.")
    max_runs: int = Field(100, ge=1, le=100_000, description="Runs a day, at most.")
    seed: int = Field(1, description="The same seed is the same history.")

    @model_validator(mode="after")
    def _makes_sense(self) -> "SeedOptions":
        if self.end < self.start:
            raise ValueError(f"the last day, {self.end}, is before the first, {self.start}")
        if self.max_runs < self.min_runs:
            raise ValueError(f"at most {self.max_runs} runs a day is less than at least {self.min_runs}")
        return self


class Seeded(BaseModel, frozen=True):
    """What was sent."""

    topic: str = Field(description="Where to.")
    days: int = Field(description="Days of history.")
    runs: int = Field(description="Runs in it.")
    events: int = Field(description="Events that Kafka has acknowledged.")


def history(options: SeedOptions) -> Iterator[tuple[int, list[Json]]]:
    """Yield for each day how many runs begin in it, and its events by their time. Days do not depend on each other."""
    for number in range((options.end - options.start).days + 1):
        day = options.start + datetime.timedelta(days=number)
        dice = random.Random(f"{options.seed} {day}")  # noqa: S311 - a history, not a secret
        writer = EventWriter(dice)
        midnight = datetime.datetime.combine(day, datetime.time(), datetime.UTC)
        wanted = dice.randint(options.min_runs, options.max_runs)
        if number % _STREAM_DAYS == 0:
            days_left = min(_STREAM_DAYS, (options.end - day).days + 1)
            flink(writer, midnight, midnight + datetime.timedelta(days=days_left))
        while (room := wanted - writer.runs) > 0:
            fitting = [each for each in STORIES if each[1] <= room]
            story = dice.choices([each[0] for each in fitting], [each[2] for each in fitting])[0]
            hour = dice.choice(_BUSY_HOURS) if dice.random() < 0.7 else dice.randrange(24)  # noqa: PLR2004
            story(writer, writer.later(midnight + datetime.timedelta(hours=hour), 0, 600))
        yield writer.runs, sorted(writer.events, key=lambda event: str(event["eventTime"]))


def send(connection: Connection, options: SeedOptions, topic: str = LINEAGE_TOPIC) -> Iterator[Seeded]:
    """Send the history into Kafka, day by day; what is given is acknowledged. The topic is made if it is missing."""
    topics.ensure(Admin(connection), topic, TopicSpec(partitions=_PARTITIONS))
    runs = 0
    with Producer(connection, ProducerOptions(partitioner="murmur2")) as producer:
        for day, (more, events) in zip(count(1), history(options), strict=False):
            for event in events:
                record = lineage_record(orjson.dumps(event), None)
                # The time of the record is now: retention must not take what nobody has read yet.
                producer.send(topic, record.value, key=record.key)
            producer.flush()
            runs += more
            yield Seeded(topic=topic, days=day, runs=runs, events=producer.sent)
