"""Sending what the simulator makes: events by the logging transport, records at full speed by the producer."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pydantic import Field

from penstock.config import settings
from penstock.errors import Conflict, DeliveryFailed, NotFound
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.producer import Producer
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.simulator.events import KEY, MODULES, PARTITIONS, ROOT_LOGGER, TOPIC
from penstock.lab.simulator.load import Records
from penstock.lab.simulator.play import Show
from penstock.lab.simulator.simulation import Send, SimulationOptions, SimulationResult, simulate
from penstock.logging import EventHandler, HandlerOptions
from penstock.transports import Outgoing, Transport
from penstock.transports.address import Address, opener, parse
from penstock.transports.kafka import Kafka

PROJECT_KAFKA = "kafka://"
_FLUSH_TIMEOUT_S = 120.0


class SentSimulation(SimulationResult):
    """A simulation whose records the server has taken, all of them."""

    address: str = Field(description="Where they went.")
    topic: str = Field(description="The topic.")
    sent: int = Field(description="Records that the server accepted: events and malformed ones.")
    dropped: int = Field(description="Events that the logging transport dropped.")
    events_per_s: int = Field(description="Records a second, until the last was accepted.")


@dataclass(frozen=True)
class Sent:
    """What has become of events, over all topics that they went to."""

    handlers: list[EventHandler]

    @property
    def sent(self) -> int:
        """Events that the server accepted."""
        return sum(each.sent for each in self.handlers)

    @property
    def dropped(self) -> int:
        """Events that were dropped."""
        return sum(each.dropped for each in self.handlers)


class Destination:
    """An address that the simulator sends to. `kafka://` alone is the project's Kafka, or the connection given."""

    def __init__(
        self,
        address: str = PROJECT_KAFKA,
        *,
        topic: str = TOPIC,
        by_module: bool = False,
        connection: Connection | None = None,
    ) -> None:
        self.address: Address = parse(address)
        self.topic = topic
        # By what logger an event comes from, as in the game that this one is modelled on, or all in one topic.
        self._topics = {f"{ROOT_LOGGER}.{each}": f"{topic}.{each}" for each in MODULES} if by_module else {}
        # Malformed records come from no logger; the last module is the one that is heard most often.
        self._topic_of_records = [topic, *self._topics.values()][-1]
        self._connection = _connection(self.address, connection)
        # Here, not in the handler's thread: a client library cannot be loaded while the program ends.
        kafka = self._connection
        self._open: Callable[[], Transport] = (lambda: Kafka(kafka)) if kafka else opener(self.address)

    def prepare(self) -> None:
        """Raise unless the server answers; in Kafka, make the topic if it is missing."""
        if self._connection is None:
            self._open().close()
            return
        admin = Admin(self._connection)
        for topic in self._topics.values() or [self.topic]:
            try:
                topics.partition_count(admin, topic)
            except NotFound:
                with suppress(Conflict):  # somebody else made it just now
                    topics.create(admin, topic, TopicSpec(partitions=PARTITIONS))

    @contextmanager
    def events(self) -> Iterator["Sent"]:
        """Send what the simulator logs while the block runs; nothing is dropped, logging waits instead."""
        root = logging.getLogger(ROOT_LOGGER)
        level = root.level
        root.setLevel(logging.INFO)
        handlers = {name: self._handler(topic) for name, topic in (self._topics or {ROOT_LOGGER: self.topic}).items()}
        for name, handler in handlers.items():
            logging.getLogger(name).addHandler(handler)
        try:
            yield Sent(list(handlers.values()))
        finally:
            for name, handler in handlers.items():
                logging.getLogger(name).removeHandler(handler)
            root.setLevel(level)
            for handler in handlers.values():
                handler.close()

    def _handler(self, topic: str) -> EventHandler:
        options = HandlerOptions(topic=topic, key=KEY, when_full="block", flush_timeout_s=_FLUSH_TIMEOUT_S)
        return EventHandler(self._open, options, server=str(self.address))

    @contextmanager
    def records(self) -> Iterator[Send]:
        """Return a way to send records as they are; at the end of the block all are accepted, or it raises."""
        if self._connection is not None:
            with Producer(self._connection) as producer:
                yield lambda records: producer.send_many(self._topic_of_records, records)
            return
        transport = self._open()

        def send(records: Records) -> None:
            transport.send([Outgoing(self._topic_of_records, record["value"], record["key"]) for record in records])

        try:
            yield send
        finally:
            transport.close()


def _connection(address: Address, project: Connection | None) -> Connection | None:
    """Return the connection of a Kafka address; None for other transports."""
    if address.scheme != "kafka":
        return None
    if address.host:
        return settings.load(bootstrap=f"{address.host}:{address.port}").connection()
    return project or settings.load().connection()


def simulate_to(
    options: SimulationOptions,
    destination: Destination,
    *,
    show: Show = lambda _done, _total: None,
    wanted: Callable[[], int | None] | None = None,
) -> SentSimulation:
    """Play all games, send every event and malformed record, write the truth; `DeliveryFailed` if any is missing."""
    destination.prepare()
    began = time.monotonic()
    with destination.records() as send:
        if options.speed == "max":
            result = simulate(options, send, show=show)
            sent, dropped = result.records, 0
        else:
            with destination.events() as handler:
                result = simulate(options, send, show=show, wanted=wanted)
            sent, dropped = handler.sent + result.malformed, handler.dropped
    if sent != result.records:
        raise DeliveryFailed(
            f"{result.records - sent} of {result.records} records were not accepted by {destination.address}",
            safe=f"{sent} are in '{destination.topic}', and {dropped} were dropped",
            fix="Play again into an empty topic",
        )
    seconds = time.monotonic() - began
    return SentSimulation(
        **{**result.model_dump(), "seconds": seconds},
        address=str(destination.address),
        topic=destination.topic,
        sent=sent,
        dropped=dropped,
        events_per_s=round(sent / seconds),
    )
