"""Topics that the gateway writes to: there, and what each of them takes. Looked up once a minute at most."""

import asyncio
import math
import time

from penstock.errors import BadInput, NotFound, PenstockError, Refused
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.topic_limits import TopicLimits, limits_of
from penstock.kafka.topic_spec import NO_TOPIC_NAME, TOPIC_NAME, TopicSpec, is_own
from penstock.lineage.gateway.delivery import RETRY_AFTER_S
from penstock.lineage.gateway.refusal import Refusal

_FRESH_S = 60.0
_KNOWN_MAX = 1000
_BATCH_BYTES = 1_000_000
_PARTITIONS = 4
_OTHERS_OWN = {"_schemas"}
"""Where registries of Confluent's kind keep their schemas: a record there is a command to them."""


class Topics:
    """The limits of topics. Waiting for Kafka is done in a thread, for one topic at a time."""

    def __init__(self, connection: Connection, lineage_topic: str, connect_group: str, *, timeout_s: float) -> None:
        self._connect_group = connect_group
        self._admin = Admin(connection, timeout_s=timeout_s)
        self._lineage_topic = lineage_topic
        self._known: dict[str, tuple[float, TopicLimits]] = {}
        self._asking = asyncio.Lock()
        self._is_away_until = 0.0

    async def limits(self, topic: str) -> TopicLimits:
        """Return what a topic takes; raise `Refusal` if it is not there, is not for clients, or Kafka does not answer.

        Of a topic that was there before, what is known is good enough while Kafka is away.
        """
        if (found := self._found(topic, _FRESH_S)) is not None:
            return found
        if not TOPIC_NAME.fullmatch(topic):
            raise Refusal(422, f"No topic is called that: {NO_TOPIC_NAME}")
        if is_own(topic, self._connect_group) or topic in _OTHERS_OWN:
            raise Refusal(403, f"Topic '{topic}' is Kafka's, Penstock's or a registry's own")
        async with self._asking:
            if (found := self._found(topic, _FRESH_S)) is not None:
                return found
            # Those who waited behind somebody who got no answer do not wait for another.
            limits = await self._asked(topic) if time.monotonic() >= self._is_away_until else None
        if limits is None:
            limits = self._found(topic, math.inf)
        if limits is None:
            raise Refusal(
                503,
                "Kafka is away; nothing was written",
                details={"acknowledged": 0, "written": False},
                retry_after_s=RETRY_AFTER_S,
            )
        return limits

    async def _asked(self, topic: str) -> TopicLimits | None:
        """Ask Kafka, and remember; return None if it does not answer."""
        try:
            limits = await asyncio.to_thread(self.look_up, topic)
        except NotFound:
            raise Refusal(404, f"Topic '{topic}' is not there; nothing was written") from None
        except Refused:
            raise Refusal(403, f"The gateway's user may not see topic '{topic}'; nothing was written") from None
        except BadInput:  # such as `.`: it is no outage, for which others would be refused, too
            raise Refusal(422, f"No topic is called '{topic}'") from None
        except PenstockError:
            self._is_away_until = time.monotonic() + RETRY_AFTER_S
            return None
        if limits.max_bytes < _BATCH_BYTES:
            raise Refusal(
                409, f"Topic '{topic}' takes batches of {limits.max_bytes} bytes, and the gateway's have {_BATCH_BYTES}"
            )
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known[topic] = (time.monotonic(), limits)
        return limits

    def _found(self, topic: str, age_s: float) -> TopicLimits | None:
        since, limits = self._known.get(topic, (0.0, None))
        return limits if limits is not None and time.monotonic() - since < age_s else None

    def forget(self, topic: str) -> None:
        """Look a topic up again next time."""
        self._known.pop(topic, None)

    def look_up(self, topic: str) -> TopicLimits:
        """Ask Kafka for a topic's limits; the lineage's own topic is made if it is missing."""
        if topic == self._lineage_topic:
            topics.ensure(self._admin, topic, TopicSpec(partitions=_PARTITIONS))
        else:
            topics.partition_count(self._admin, topic)
        return limits_of(self._admin, topic)
