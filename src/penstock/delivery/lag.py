"""Lag, reported to Kafka: after each batch the positions go to the group `penstock.<pipeline>`, where any tool sees it.

It is a report, never read back as a position; that is why resetting the group is refused.
"""

from threading import Thread

from confluent_kafka import Consumer, KafkaException, TopicPartition

from penstock.errors import Conflict, Transient
from penstock.kafka.connection import Connection
from penstock.kafka.failures import logger, opening, translate
from penstock.record.formats import metadata_of, metadata_words
from penstock.record.positions import Positions, SourcePartition

PREFIX = "penstock."
_TIMEOUT_S = 10.0
_ASKING_S = 30.0


class LagReport:
    """Writes and reads the report of one pipeline."""

    def __init__(self, connection: Connection, pipeline: str) -> None:
        self._group = group_of(pipeline)
        settings = {**connection.librdkafka(), "group.id": self._group, "enable.auto.commit": False}
        with opening(connection):
            self._client = Consumer(settings, logger=logger)
        self._connection = connection
        self._reporting: Thread | None = None

    def report(self, positions: Positions) -> bool:
        """Report positions; return whether that worked. A failed report only means that the lag shown is older."""
        if self._reporting is not None and self._reporting.is_alive():
            return False
        committed: list[bool] = []
        # On a thread of its own: librdkafka's commit has no time limit, and a broker may hang.
        self._reporting = Thread(target=lambda: committed.append(self._commit(positions)), daemon=True)
        self._reporting.start()
        self._reporting.join(_TIMEOUT_S)
        return committed == [True]

    def _commit(self, positions: Positions) -> bool:
        offsets = [
            TopicPartition(
                source_partition.topic,
                source_partition.partition,
                offset,
                metadata=metadata_of(source_partition.topic_id),
            )
            for source_partition, offset in positions.items()
            if source_partition.in_kafka
        ]
        if not offsets:
            return True
        try:
            self._client.commit(offsets=offsets, asynchronous=False)
        except KafkaException as failure:
            logger.warning("the lag could not be reported: %s", failure.args[0].str())
            return False
        return True

    def reported(self, source_partitions: list[SourcePartition]) -> Positions:
        """Read what was reported last; empty if this client lacks the permission. Raise while Kafka does not answer."""
        asked = {
            (source_partition.topic, source_partition.partition): source_partition
            for source_partition in source_partitions
            if source_partition.in_kafka
        }
        try:
            found = self._client.committed([TopicPartition(*each) for each in asked], _ASKING_S) if asked else []
        except KafkaException as failure:
            error = translate(failure, self._connection, "reading the lag that was reported last")
            if isinstance(error, Transient):
                # No answer is not "nothing was reported": whoever asks would start over.
                raise error from None
            return {}
        reported: Positions = {}
        for each in found:
            if each.offset >= 0:
                source_partition = asked[each.topic, each.partition]
                what = f"the lag that was reported at {source_partition} to group '{self._group}'"
                if metadata_words(what, each.metadata) == [source_partition.topic_id]:
                    reported[source_partition] = each.offset
        return reported

    def close(self) -> None:
        """Close the client, unless it hangs."""
        if self._reporting is None or not self._reporting.is_alive():
            self._client.close()


def group_of(pipeline: str) -> str:
    """Name the group that shows a pipeline's lag."""
    return f"{PREFIX}{pipeline}"


def pipeline_of(group: str) -> str | None:
    """Return which pipeline a group belongs to, if to any."""
    return group.removeprefix(PREFIX).split(".")[0] if group.startswith(PREFIX) else None


def require_not_a_report(group: str) -> None:
    """Refuse to move a group that only reports: the pipeline would not notice."""
    name = pipeline_of(group)
    if name is not None:
        raise Conflict(
            f"group '{group}' shows how far pipeline '{name}' has read; moving it would not move the pipeline",
            safe="Nothing was changed",
            fix="To read events again, run the pipeline under another name into another table",
        )
