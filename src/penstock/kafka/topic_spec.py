"""What a topic should be, in the units people use."""

import re
from typing import Literal

from pydantic import BaseModel, Field, model_validator

from penstock.quantities import DurationMs, SizeBytes

TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
NO_TOPIC_NAME = "a topic's name has letters, digits, dots, dashes and underscores, at most 249"
_OWN = ("__", "penstock.")
_DEAD_LETTERS = ".dead"
CONNECT_GROUP = "connect"


def connect_topics(group: str) -> dict[str, str]:
    """Return the topics of a worker of Connect by what is kept in each."""
    return {"config": f"{group}-configs", "offset": f"{group}-offsets", "status": f"{group}-status"}


def is_own(topic: str, connect_group: str = CONNECT_GROUP) -> bool:
    """Return whether a topic is Kafka's or Penstock's own by its name: nothing that others send is written there.

    A record in Connect's topics is a connector, which reads and writes files.
    """
    own = {*connect_topics(connect_group).values(), *connect_topics(CONNECT_GROUP).values()}
    return topic.startswith(_OWN) or topic.endswith(_DEAD_LETTERS) or topic in own


def includes_own(pattern: str, connect_group: str = CONNECT_GROUP) -> bool:
    """Return whether a name, or with a trailing `*` what begins so, is a topic of Kafka's, Connect's or Penstock's own.

    The dead letters of other topics whose names begin so do not count here: every pattern would include some.
    """
    if not pattern.endswith("*"):
        return is_own(pattern, connect_group)
    begin = pattern.removesuffix("*")
    own = (*_OWN, *connect_topics(connect_group).values(), *connect_topics(CONNECT_GROUP).values())
    return begin.startswith(_OWN) or any(each.startswith(begin) for each in own)


NAMED = {"cleanup.policy": "cleanup", "retention.ms": "retention", "retention.bytes": "retention_size"}
"""Settings that have a name of their own here, each with it."""


class TopicSpec(BaseModel, frozen=True, extra="forbid"):
    """A topic as the project wants it. Whatever is left out gets the cluster's default."""

    partitions: int | None = Field(None, ge=1, le=10_000, description="Number of partitions; it can only grow.")
    replication: int | None = Field(
        None, ge=1, le=9, description="Replicas of each partition, set when the topic is made."
    )
    cleanup: Literal["delete", "compact", "both"] | None = Field(
        None, description="delete: drop old records; compact: keep the newest of each key; both."
    )
    retention: DurationMs | None = Field(None, ge=-1, description="How long records are kept, such as 7d or forever.")
    retention_size: SizeBytes | None = Field(
        None, ge=-1, description="How many bytes each partition keeps, such as 1GB or unlimited."
    )
    config: dict[str, str | int | bool] = Field(
        default_factory=dict,
        description="Further topic settings by Kafka's own names, such as min.insync.replicas.",
    )

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> "TopicSpec":
        for key in self.config:
            if key in NAMED:
                raise ValueError(f"say '{NAMED[key]}' instead of config '{key}'")
        return self

    def kafka_config(self) -> dict[str, str]:
        """Return the topic's settings by Kafka's own names."""
        config = {
            name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in self.config.items()
        }
        if self.cleanup is not None:
            config["cleanup.policy"] = "compact,delete" if self.cleanup == "both" else self.cleanup
        if self.retention is not None:
            config["retention.ms"] = str(self.retention)
        if self.retention_size is not None:
            config["retention.bytes"] = str(self.retention_size)
        return config
