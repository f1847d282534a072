"""RabbitMQ: a queue for each group, emptied as its members acknowledge.

Guarantees. At least once. A topic is a durable fanout exchange, a group a durable queue on it. Messages are persistent,
and the server confirms them, many at a time. A topic that no group has subscribed to yet has nowhere to keep messages:
`send` then raises `NotFound` rather than lose them.

- A consumer dies: what it had not acknowledged goes to another member at once, or waits in the queue. Nothing is lost.
- The server dies: nothing that it confirmed is lost, for it confirms when the message is on disk. Consumers get again
  what they had not acknowledged, and what they acknowledged just before.

A queue is in the order of sending for one member. Several members share it without an order between them, and what
comes again comes later. Once acknowledged by a group a message is gone; a new group gets what is sent from then on.
"""

import itertools
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import pika
from pika.exceptions import AMQPError, ChannelClosedByBroker

from penstock.errors import (
    BrokerUnavailable,
    NotFound,
    OwnershipLost,
    RecordsRefused,
)
from penstock.transports.address import Address
from penstock.transports.rabbitmq_connection import ANSWER_S, CONFIRM_S, FAILURES, parameters, translated
from penstock.transports.transport import Incoming, Outgoing

_PREFETCH = 2000
_UNCONFIRMED = 2000
# RabbitMQ ends the channel at a message above its limit (16 MiB), and with it the confirmations of those before.
_LARGE = 2**20
# A key travels in a header, and headers in one frame of at most 128 KiB.
_LARGEST_KEY = 2**16
_PERSISTENT = 2
_SETTLING = "settling"
_connections = itertools.count(1)


class _TooLarge(Exception):
    """One of the messages is larger than RabbitMQ takes."""


class RabbitMQ:
    """Publishes to a topic's exchange and waits for the confirmations of a whole batch."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._parameters = parameters(address)
        self._publisher: _Publisher | None = self._open()

    def _open(self) -> "_Publisher":
        try:
            return _Publisher(self._parameters)
        except FAILURES as error:
            raise translated(error, self._address, "connecting") from None

    def send(self, messages: Sequence[Outgoing]) -> None:
        """Return when RabbitMQ has confirmed all of them; raises `NotFound` if no group has subscribed yet."""
        refusals: dict[int, str] = {}
        unrouted: str | None = None
        waiting = self._chunks(messages, refusals)
        while waiting:
            numbers = waiting.popleft()
            try:
                unrouted = self._publish([messages[number] for number in numbers]) or unrouted
            except _TooLarge as refusal:
                if len(numbers) == 1:
                    refusals[numbers[0]] = str(refusal)
                else:
                    waiting.extendleft([number] for number in reversed(numbers))
        if unrouted:
            raise NotFound(
                f"no group has subscribed to '{unrouted}' at RabbitMQ, so there is no queue to keep messages in",
                fix="Subscribe first, once: the group's queue stays",
            )
        if refusals:
            raise RecordsRefused(next(iter(refusals.values())), refused=sorted(refusals))

    def _chunks(self, messages: Sequence[Outgoing], refusals: dict[int, str]) -> deque[list[int]]:
        """Return the numbers of messages that go together; large ones go alone. Impossible keys are refused here."""
        chunks: deque[list[int]] = deque([[]])
        for number, message in enumerate(messages):
            if problem := _problem_of_key(message.key):
                refusals[number] = problem
            elif len(message.value) >= _LARGE:
                # If it is too large, it is the one to blame, and none of the others is in doubt.
                chunks.extend([[number], []])
            else:
                chunks[-1].append(number)
        return deque(filter(None, chunks))

    def _publish(self, messages: Sequence[Outgoing]) -> str | None:
        publisher = self._publisher = self._publisher or self._open()
        try:
            return publisher.publish(messages)
        except FAILURES as error:
            self._publisher = None
            publisher.close()
            if isinstance(error, ChannelClosedByBroker) and "message size" in error.reply_text:
                raise _TooLarge(f"publishing: RabbitMQ says {error.reply_text}") from None
            raise translated(error, self._address, "publishing") from None

    def subscribe(self, topic: str, group: str) -> "QueueSubscription":
        """Make the group's queue if it is not there, and take from it."""
        return QueueSubscription(self._address, self._parameters, topic, group)

    def close(self) -> None:
        """Close the connection; everything sent is confirmed already."""
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None


class _Publisher:
    """A connection that publishes many messages before it waits for their confirmations.

    pika's blocking channel waits for each one, a round trip and a flush to disk a message. Its event loop does not, and
    runs here in the caller's thread, for as long as somebody waits.
    """

    def __init__(self, parameters: pika.ConnectionParameters) -> None:
        self._failure: BaseException | None = None
        self._channel: Any = None
        self._exchanges: set[str] = set()
        self._unconfirmed: dict[int, None] = {}
        self._tag = 0
        self._unrouted: str | None = None
        self._confirming = False
        self._connection = pika.SelectConnection(
            parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._opened),
            on_open_error_callback=lambda _, error: self._failed(error),
            on_close_callback=lambda _, error: self._failed(error),
        )
        try:
            self._wait(lambda: self._confirming, ANSWER_S)
        except FAILURES:
            self.close()
            raise

    def _opened(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_close_callback(self._lost)
        channel.add_on_return_callback(self._returned)
        channel.confirm_delivery(self._confirmed, callback=lambda _: self._began())

    def _began(self) -> None:
        self._confirming = True
        self._connection.ioloop.stop()

    def _lost(self, _channel: Any, error: Any) -> None:
        # When we close the connection its channel goes first; the connection's own farewell is still to come.
        if not self._connection.is_closing:
            self._failed(error)

    def _failed(self, error: Any) -> None:
        self._failure = self._failure or (error if isinstance(error, BaseException) else AMQPError(str(error)))
        self._connection.ioloop.stop()

    def _returned(self, _channel: Any, method: Any, _properties: Any, _body: bytes) -> None:
        self._unrouted = method.exchange

    def _confirmed(self, frame: Any) -> None:
        method = frame.method
        if isinstance(method, pika.spec.Basic.Nack):
            self._failed(AMQPError("it could not store a message"))
        if method.multiple:
            while self._unconfirmed and (first := next(iter(self._unconfirmed))) <= method.delivery_tag:
                del self._unconfirmed[first]
        else:
            self._unconfirmed.pop(method.delivery_tag, None)
        if not self._unconfirmed:
            self._connection.ioloop.stop()

    def _wait(self, done: Callable[[], bool], timeout_s: float) -> None:
        """Run the event loop until something is done, fails or takes too long."""
        late = AMQPError(f"no answer within {timeout_s:.0f} s")
        timer = self._connection.ioloop.call_later(timeout_s, lambda: self._failed(late))
        while not done() and self._failure is None:
            self._connection.ioloop.start()
        self._connection.ioloop.remove_timeout(timer)
        if self._failure is not None:
            raise self._failure

    def publish(self, messages: Sequence[Outgoing]) -> str | None:
        """Publish and wait for all confirmations; return the topic of a message that had nowhere to go."""
        self._unrouted = None
        for topic in {message.topic for message in messages} - self._exchanges:
            declared: list[Any] = []

            def answered(frame: Any, declared: list[Any] = declared) -> None:
                declared.append(frame)
                self._connection.ioloop.stop()

            self._channel.exchange_declare(topic, "fanout", durable=True, callback=answered)
            self._wait(lambda declared=declared: bool(declared), ANSWER_S)  # type: ignore[misc]
            self._exchanges.add(topic)
        for start in range(0, len(messages), _UNCONFIRMED):
            for message in messages[start : start + _UNCONFIRMED]:
                headers = None if message.key is None else {"key": message.key}
                properties = pika.BasicProperties(delivery_mode=_PERSISTENT, headers=headers)
                self._tag += 1
                self._unconfirmed[self._tag] = None
                self._channel.basic_publish(message.topic, "", message.value, properties, mandatory=True)
            self._wait(lambda: not self._unconfirmed, CONFIRM_S)
        return self._unrouted

    def close(self) -> None:
        """Say goodbye if the connection is still open, and let go of the sockets in any case."""
        self._failure = None
        try:
            if self._connection.is_open:
                self._connection.close()
                self._wait(lambda: bool(self._connection.is_closed), ANSWER_S)
        except FAILURES:
            return
        finally:
            # pika closes its socket one turn of the loop after it has said that it is closed.
            self._connection.ioloop.call_later(0, self._connection.ioloop.stop)
            self._connection.ioloop.start()
            self._connection.ioloop.close()


class QueueSubscription:
    """A consumer of the group's queue. At most 2,000 messages are handed out and not acknowledged."""

    def __init__(self, address: Address, parameters: pika.ConnectionParameters, topic: str, group: str) -> None:
        self._address = address
        self._parameters = parameters
        self._topic = topic
        self._queue = f"{topic}.{group}"
        self._connection: Any = None
        self._channel: Any = None
        self._number = 0
        self._arrived: deque[Incoming] = deque()
        self._open_tags: dict[int, None] = {}
        self._cancelled: list[str] = []
        self._guarded("subscribing", self._connect)

    def _connect(self) -> None:
        self._arrived.clear()
        self._open_tags.clear()
        self._cancelled.clear()
        self._number = next(_connections)
        self._connection = pika.BlockingConnection(self._parameters)
        self._channel = self._connection.channel()
        self._channel.exchange_declare(self._topic, "fanout", durable=True)
        self._channel.queue_declare(self._queue, durable=True)
        self._channel.queue_bind(self._queue, self._topic)
        self._settle()
        self._channel.basic_qos(prefetch_count=_PREFETCH)
        self._channel.add_on_cancel_callback(lambda _: self._cancelled.append(self._queue))
        self._channel.basic_consume(self._queue, self._arrive)

    def _settle(self) -> None:
        """Have the binding outlive a kill of the server: without it messages would pass the queue by.

        RabbitMQ on Mnesia answers when a change is in its log; that the change is decided may come there two seconds
        later, and one that is not decided is taken back by the next start. Another change takes what was before it to
        the disk.
        """
        self._channel.queue_bind(self._queue, self._topic, _SETTLING)
        self._channel.queue_unbind(self._queue, self._topic, _SETTLING)

    def _arrive(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        key = (properties.headers or {}).get("key")
        self._open_tags[method.delivery_tag] = None
        self._arrived.append(Incoming(body, key, (self._number, method.delivery_tag)))

    def receive(self, max_messages: int, timeout_s: float) -> list[Incoming]:
        """Return what is there; after an outage it connects again, and what was not acknowledged comes again."""
        if self._connection is None:
            self._guarded("connecting again", self._connect)
        deadline = time.monotonic() + timeout_s
        self._guarded("receiving", lambda: self._connection.process_data_events(0))
        while not self._arrived and (left_s := deadline - time.monotonic()) > 0:
            self._raise_if_cancelled()
            self._guarded("receiving", lambda left_s=left_s: self._connection.process_data_events(left_s))  # type: ignore[misc]
        if not self._arrived:
            self._raise_if_cancelled()
        return [self._arrived.popleft() for _ in range(min(max_messages, len(self._arrived)))]

    def _raise_if_cancelled(self) -> None:
        """Raise if the consumer was cancelled: RabbitMQ says that only once."""
        if self._cancelled:
            self.close()
            raise BrokerUnavailable(
                f"receiving '{self._topic}': RabbitMQ has taken queue '{self._queue}' away: it was deleted, or its node"
                " is down",
                safe="What was in a deleted queue is gone",
                fix="Try again: the next call makes the queue if it is not there",
            )

    def acknowledge(self, messages: Sequence[Incoming]) -> None:
        """Acknowledge them, in one step if they are the oldest ones that were delivered."""
        fresh = [] if self._connection is None else [each for each in messages if each.receipt[0] == self._number]
        self._forget({message.receipt[1] for message in fresh})
        if len(fresh) < len(messages):
            raise OwnershipLost(
                f"{len(messages) - len(fresh)} messages of '{self._topic}' came over a connection that is gone",
                safe="They are delivered again; the others are acknowledged",
            )

    def _forget(self, tags: set[int]) -> None:
        oldest = list(itertools.islice(self._open_tags, len(tags)))
        if tags and tags == set(oldest):
            self._guarded("acknowledging", lambda: self._channel.basic_ack(oldest[-1], multiple=True))
        else:
            for tag in sorted(tags & self._open_tags.keys()):
                self._guarded("acknowledging", lambda tag=tag: self._channel.basic_ack(tag))  # type: ignore[misc]
        for tag in tags:
            self._open_tags.pop(tag, None)

    def close(self) -> None:
        """Leave; the queue stays, and gives what was not acknowledged to others."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.is_open:
            try:
                connection.close()
            except FAILURES:
                return

    def _guarded(self, doing: str, call: Callable[[], object]) -> None:
        try:
            call()
        except FAILURES as error:
            self.close()
            raise translated(error, self._address, f"{doing} '{self._topic}'") from None


def _problem_of_key(key: str | None) -> str | None:
    try:
        encoded = (key or "").encode()
    except UnicodeEncodeError:
        return "a key is not text that UTF-8 can represent"
    return f"a key has more than {_LARGEST_KEY} bytes" if len(encoded) > _LARGEST_KEY else None
