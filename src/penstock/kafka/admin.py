"""The admin connection that topics, groups, users and ACLs work through."""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Any, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from penstock.errors import BadInput, BrokerUnavailable, LeaderNotAvailable, Transient
from penstock.kafka.connection import Connection
from penstock.kafka.failures import Causes, logger, opening, translate

Result = TypeVar("Result")
_LOOK_EVERY_S = 0.1
_REPLACE_EVERY_S = 1.0


def require_whole(*names: str) -> None:
    """Raise `BadInput` for a name with a NUL: librdkafka would take it for what stands before that, another's name."""
    for name in names:
        if "\0" in name:
            raise BadInput(f"nothing in Kafka has a name with a NUL, as '{name}'", safe="Nothing was changed")


class Admin:
    """One admin client. Calls return or raise a typed error within `timeout_s`, sooner if the cause is clear."""

    def __init__(self, connection: Connection, *, timeout_s: float = 15.0) -> None:
        self.connection = connection
        self.timeout_s = timeout_s
        self._causes = Causes(connection)
        self._replacing = threading.Lock()
        self._former: list[tuple[float, AdminClient]] = []
        self._opened_s = 0.0
        self.client = self._open()

    def _open(self) -> AdminClient:
        self._opened_s = time.monotonic()
        settings = {**self.connection.librdkafka(), "error_cb": self._causes}
        with opening(self.connection):
            return AdminClient(settings, logger=logger)

    def _replace(self, failed: AdminClient) -> None:
        """Go on with a new client: one whose controller died waits for that node for minutes, a new one asks around.

        Other threads may still wait for answers to the old one, and a client that is let go answers nobody.
        """
        with self._replacing:
            now = time.monotonic()
            if self.client is not failed or now - self._opened_s < _REPLACE_EVERY_S:
                return
            self._former = [each for each in self._former if each[0] > now - self.timeout_s]
            self._former.append((now, failed))
            self.client = self._open()

    def result(self, future: "Future[Result]", doing: str) -> Result:
        """Wait for one answer."""
        client, deadline = self.client, time.monotonic() + self.timeout_s
        while True:
            try:
                answer = future.result(timeout=_LOOK_EVERY_S)
            except NotYet:
                self._raise_if_hopeless(client, deadline, doing)
            except KafkaException as failure:
                client.poll(0)
                error = self._causes.decisive() or translate(failure, self.connection, doing)
                if isinstance(error, Transient):
                    self._replace(client)
                raise error from None
            else:
                self._causes.forget_outage()
                return answer

    def results(self, futures: "Mapping[Any, Future[Result]]", doing: str) -> list[Result]:
        """Wait for several answers, in order."""
        return [self.result(future, doing) for future in futures.values()]

    def metadata(self, doing: str) -> ClusterMetadata:
        """Ask for nodes, topics and partitions; all of them, for asking for one may make it (`auto.create.topics`)."""
        client, deadline = self.client, time.monotonic() + self.timeout_s
        while True:
            try:
                wait_s = max(0.1, min(1.0, deadline - time.monotonic()))
                answer: ClusterMetadata = client.list_topics(timeout=wait_s)
            except KafkaException:
                self._raise_if_hopeless(client, deadline, doing)
            else:
                self._causes.forget_outage()
                return answer

    def settle(self, is_done: Callable[[], bool], doing: str) -> None:
        """Wait until a change that Kafka accepted is visible, so that the next call sees it; a look may fail."""
        deadline = time.monotonic() + self.timeout_s
        while not self._is_seen(is_done):
            if time.monotonic() > deadline:
                raise BrokerUnavailable(
                    f"{doing}: accepted by Kafka, but not visible after {self.timeout_s:.0f} s",
                    safe="Kafka will do it",
                    fix="Look with: penstock status",
                )
            time.sleep(_LOOK_EVERY_S / 5)

    @staticmethod
    def _is_seen(is_done: Callable[[], bool]) -> bool:
        try:
            return is_done()
        except Transient:
            return False

    def when_ready(self, ask: Callable[[], Result]) -> Result:
        """Ask again, within `timeout_s`, while a leader or a coordinator is new: a young cluster moves them about."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                return ask()
            except LeaderNotAvailable:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOOK_EVERY_S)

    def _raise_if_hopeless(self, client: AdminClient, deadline: float, doing: str) -> None:
        client.poll(0)
        cause = self._causes.decisive()
        if cause is not None:
            raise cause
        if time.monotonic() > deadline:
            self._replace(client)
            raise self._causes.timeout(doing)
