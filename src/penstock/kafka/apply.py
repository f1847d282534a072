"""Creating and changing topics as the project file says: planned first, never deleting one."""

from typing import Literal

from pydantic import BaseModel, Field

from penstock.errors import BadInput
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.topic_spec import TopicSpec
from penstock.quantities import UNLIMITED
from penstock.wording import plural

_LIMITS_RECORDS = ("retention.ms", "retention.bytes")


class Change(BaseModel, frozen=True):
    """One step of the plan."""

    topic: str = Field(description="Topic.")
    action: Literal["create", "add partitions", "change", "keep"] = Field(description="What will be done.")
    detail: str = Field(description="From what to what.")
    deletes_records: bool = Field(
        default=False, description="Whether records that are there now may go: it then needs a yes."
    )
    config: dict[str, str] = Field(default_factory=dict, description="Settings to set, by Kafka's names.")


def plan(admin: Admin, wanted: dict[str, TopicSpec]) -> list[Change]:
    """Compare the project's topics with the cluster's. Refuses what Kafka cannot do before anything is done."""
    there = {topic.topic: topic for topic in topics.list_topics(admin, internal=True)}
    changes: list[Change] = []
    for name, spec in wanted.items():
        if name not in there:
            parts = spec.partitions or 1
            settings = ", ".join(f"{key}={value}" for key, value in spec.kafka_config().items())
            changes.append(
                Change(topic=name, action="create", detail=f"{plural(parts, 'partition')} {settings}".strip())
            )
        else:
            changes += _differences(admin, name, spec, there[name])
    return changes


def _differences(admin: Admin, name: str, spec: TopicSpec, have: topics.TopicSummary) -> list[Change]:
    found = []
    if spec.partitions is not None and spec.partitions < have.partitions:
        raise BadInput(
            f"topic '{name}' has {have.partitions} partitions and the project says {spec.partitions};"
            " Kafka cannot take any away",
            safe="Nothing was changed",
        )
    if spec.replication is not None and spec.replication != have.replication:
        raise BadInput(
            f"topic '{name}' has {have.replication} replicas and the project says {spec.replication};"
            " that is set when a topic is made",
            safe="Nothing was changed",
        )
    if spec.partitions is not None and spec.partitions > have.partitions:
        detail = f"{have.partitions} → {spec.partitions}; keys map to other partitions from here on"
        found.append(Change(topic=name, action="add partitions", detail=detail))
    current = topics.config(admin, name)
    config = {key: value for key, value in spec.kafka_config().items() if current.get(key, ("", False))[0] != value}
    if config:
        detail = ", ".join(f"{key}: {current.get(key, ('unset', False))[0]} → {value}" for key, value in config.items())
        found.append(
            Change(
                topic=name,
                action="change",
                detail=detail,
                deletes_records=any(
                    _may_delete(key, current.get(key, ("", False))[0], new) for key, new in config.items()
                ),
                config=config,
            )
        )
    return found or [Change(topic=name, action="keep", detail="unchanged")]


def _may_delete(key: str, old: str, new: str) -> bool:
    """Shorter retention deletes, and so does a cleanup policy that did not delete or compact before."""
    if key == "cleanup.policy":
        return bool(set(new.split(",")) - set(old.split(",")))
    if key not in _LIMITS_RECORDS or int(new) == UNLIMITED:
        return False
    return old in ("", str(UNLIMITED)) or int(new) < int(old)


def carry_out(admin: Admin, changes: list[Change], wanted: dict[str, TopicSpec]) -> None:
    """Do what the plan says, topic by topic; each step can be repeated."""
    for change in changes:
        spec = wanted[change.topic]
        if change.action == "create":
            topics.create(admin, change.topic, spec)
        elif change.action == "add partitions" and spec.partitions is not None:
            topics.add_partitions(admin, change.topic, spec.partitions)
        elif change.action == "change":
            topics.alter_config(admin, change.topic, dict(change.config))
