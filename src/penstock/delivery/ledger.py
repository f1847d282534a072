"""What became of dead letters: replayed or discarded, in a compacted topic of its own.

Guarantee: a dead letter is settled once. Settling is one transaction under one transactional id, which fences whoever
settles at the same time; what the other had in hand is settled by nobody.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Literal

import orjson
from pydantic import BaseModel, Field

from penstock.delivery.dead_letters import DeadLetter
from penstock.errors import Conflict, NotFound
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.reader import read_all
from penstock.kafka.topic_spec import TopicSpec

TOPIC = "penstock.dead-ledger"

Letter = tuple[str, str, int, int]
"""Topic, topic id, partition and offset of a dead letter."""


class Replay(BaseModel, frozen=True):
    """An immutable selection of dead letters that goes through a pipeline once."""

    id: str = Field(description="Its id.")
    pipeline: str = Field(description="The pipeline.")
    file: str = Field(description="The pipeline file it runs with.")
    state: Literal["started", "done"] = Field(description="Whether it got to its end.")
    letters: dict[str, dict[int, list[int]]] = Field(description="Offsets by dead-letter topic and partition.")

    @property
    def count(self) -> int:
        """How many letters there are."""
        return sum(len(offsets) for parts in self.letters.values() for offsets in parts.values())


class Ledger:
    """The record of settled dead letters."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._admin = Admin(connection)
        self._ids: dict[str, str] = {}

    def _entries(self) -> dict[bytes, bytes]:
        try:
            topics.partition_count(self._admin, TOPIC)
        except NotFound:
            return {}
        return {message.key() or b"": message.value() or b"" for message in read_all(self._connection, TOPIC)}

    def key_of(self, letter: DeadLetter) -> Letter:
        """Name a letter for good: its topic's id goes along."""
        if letter.dead_topic not in self._ids:
            self._ids |= {name: found for name, (found, _) in topics.identify(self._admin, [letter.dead_topic]).items()}
        return (letter.dead_topic, self._ids[letter.dead_topic], letter.dead_partition, letter.dead_offset)

    def settled(self) -> dict[Letter, str]:
        """Give every settled letter, with what became of it."""
        found = {}
        for key, value in self._entries().items():
            name = orjson.loads(key)
            if name[0] == "letter":
                found[name[1], name[2], name[3], name[4]] = orjson.loads(value)["state"]
        return found

    def replays(self) -> dict[str, Replay]:
        """Give every replay by id."""
        named = {key: value for key, value in self._entries().items() if orjson.loads(key)[0] == "replay"}
        return {orjson.loads(key)[1]: Replay.model_validate_json(value) for key, value in named.items()}

    def discard(self, letters: Iterable[DeadLetter]) -> int:
        """Settle letters as discarded; give how many were still open."""
        return self._settle(letters, "discarded", None)

    def claim(self, letters: Iterable[DeadLetter], replay: Replay) -> int:
        """Settle letters as replayed, together with the replay's own record; raise if one is settled already."""
        return self._settle(letters, f"replayed by {replay.id}", replay)

    def finish(self, replay: Replay) -> None:
        """Record that a replay got to its end."""
        with Producer(self._connection) as producer:
            producer.send(
                TOPIC, replay.model_copy(update={"state": "done"}).model_dump_json(), key=_replay_key(replay.id)
            )

    def _settle(self, letters: Iterable[DeadLetter], state: str, replay: Replay | None) -> int:
        with suppress(Conflict):
            topics.create(self._admin, TOPIC, TopicSpec(partitions=1, cleanup="compact"))
        chosen = {self.key_of(letter) for letter in letters}
        options = ProducerOptions(transactional_id=TOPIC)
        with Producer(self._connection, options) as producer, producer.transaction() as transaction:
            # Looked at after everybody else was fenced: what is open now stays open until this transaction ends.
            already = chosen & self.settled().keys()
            if already and replay is not None:
                raise Conflict(
                    f"{len(already)} of these dead letters were settled in the meantime", fix="List them anew"
                )
            for letter in chosen - already:
                transaction.send(TOPIC, orjson.dumps({"state": state}), key=orjson.dumps(["letter", *letter]))
            if replay is not None:
                transaction.send(TOPIC, replay.model_dump_json(), key=_replay_key(replay.id))
        return len(chosen - already)


def _replay_key(replay_id: str) -> bytes:
    return orjson.dumps(["replay", replay_id])
