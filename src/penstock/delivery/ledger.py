"""What became of dead letters: replayed, replaced or discarded, in a compacted topic of its own.

Guarantee: a dead letter is settled once. Settling is one transaction under one transactional id, which fences everybody
who settles at the same time: their transaction is aborted. There is a record for each letter, so that a replay may have
any number of them. Whoever may write to the topic can settle letters or cause refusals, and no more: nothing in it is
run or opened, and foreign records are passed over. Records of another format version are not.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

import orjson
from confluent_kafka import Message
from pydantic import BaseModel, Field, NonNegativeInt, TypeAdapter, ValidationError

from penstock.delivery.dead_letter import DeadLetter
from penstock.delivery.reopened import for_single_sinks
from penstock.errors import Conflict, NotFound, TopicRecreated
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.reader import read_all
from penstock.kafka.topic_limits import limits_of
from penstock.kafka.topic_spec import TopicSpec
from penstock.kafka.transactions import Transaction
from penstock.record.formats import HEADER, LEDGER, require_format, version_of
from penstock.wording import plural

TOPIC = "penstock.dead-ledger"
_RECORD_MAX_BYTES = 1_000_000_000
_BATCH_MAX_BYTES = 1_000_000
_FORMAT = [(HEADER, str(LEDGER).encode())]

Letter = tuple[str, str, int, int]
"""Topic, topic id, partition and offset of a dead letter."""

ReplayId = Annotated[str, Field(pattern="^[0-9a-f]{8}$")]
_KEY: TypeAdapter[tuple[str, str] | tuple[str, str, str, int, int]] = TypeAdapter(
    tuple[Literal["replay"], ReplayId] | tuple[Literal["letter"], str, str, NonNegativeInt, NonNegativeInt]
)


class Replay(BaseModel, frozen=True):
    """What is sent through a pipeline again: an immutable selection of dead letters, or a range that replaces rows."""

    id: ReplayId = Field(description="Its id.")
    pipeline: str = Field(description="The pipeline.")
    what: Literal["letters", "range"] = Field("letters", description="What is replayed.")
    state: Literal["started", "done", "given_up"] = Field(
        "started", description="Whether it is finished, or was given up."
    )
    offset_ranges: list[tuple[str, str, int, int, int]] = Field(
        default=[], description="Of a range: topic, topic id, partition, first offset, and the one after the last."
    )
    ends: list[tuple[str, str, int, str | None, int]] = Field(
        default=[],
        description="Of letters: topic, topic id, partition and sink (none: all) of their records, and the offset after"
        " the last of those.",
    )
    sinks: list[str] = Field(
        default=[], description="The sinks that it has rows for; only a file with all of them goes on with it."
    )
    letters: dict[str, dict[int, list[int]]] = Field(
        default={}, exclude=True, description="Offsets by dead-letter topic and partition."
    )

    @property
    def count(self) -> int:
        """How many letters there are."""
        return sum(len(offsets) for parts in self.letters.values() for offsets in parts.values())

    def overlaps(self, other: "Replay") -> bool:
        """Return whether two ranges of one pipeline share a record."""
        return self.pipeline == other.pipeline and any(
            source_partition == another and start < end_there and start_there < end
            for *source_partition, start, end in self.offset_ranges
            for *another, start_there, end_there in other.offset_ranges
        )


class Settlement(BaseModel, frozen=True):
    """What became of one dead letter."""

    state: Literal["replayed", "replaced", "discarded"] = Field(description="What became of it.")
    by: ReplayId | None = Field(None, description="Id of the replay that has it.")


class Entries(BaseModel, frozen=True):
    """The ledger as it was at one moment."""

    settled: dict[Letter, Settlement] = Field(description="What became of each settled letter.")
    replays: dict[str, Replay] = Field(description="Every replay by id; its letters are not in it.")

    def is_unfinished(self, replay_id: str | None) -> bool:
        """Return whether this is an unfinished replay."""
        return replay_id in self.replays and self.replays[replay_id].state == "started"

    def replay_of_letters(self, replay_id: str) -> Replay:
        """Return a replay of dead letters; raise `NotFound`, naming those that can be resumed, if there is none."""
        found = self.replays.get(replay_id)
        if found is not None and found.what == "letters":
            return found
        open_ones = [each.id for each in self.replays.values() if each.what == "letters" and each.state == "started"]
        said = f"Unfinished: {', '.join(open_ones)}" if open_ones else "No replay waits to be resumed"
        raise NotFound(f"there is no replay of dead letters '{replay_id}'", safe="Nothing was changed", fix=said)


class Ledger:
    """The record of settled dead letters."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._admin = Admin(connection)
        self._ids: dict[str, str] = {}

    def entries(self) -> Entries:
        """Read the whole ledger; foreign records are passed over, and entries of another version are refused."""
        settled: dict[Letter, Settlement] = {}
        replays: dict[str, Replay] = {}
        for message in self._newest():
            version, where = _version_of(message), f"offset {message.offset()} of the topic '{TOPIC}'"
            if version is not None:
                require_format(where, version, LEDGER)
            value = message.value() or b""
            try:
                match _KEY.validate_json(message.key() or b"", strict=True):
                    case (_, topic, topic_id, partition, offset):
                        settled[topic, topic_id, partition, offset] = Settlement.model_validate_json(value)
                    case (_, replay_id):
                        replay = Replay.model_validate_json(value)
                        if replay.id != replay_id:
                            continue
                        replays[replay_id] = replay
            except ValidationError:
                continue
            require_format(where, version, LEDGER)
        return Entries.model_construct(settled=settled, replays=replays)

    def _newest(self) -> Iterable[Message]:
        try:
            topics.partition_count(self._admin, TOPIC)
        except NotFound:
            return []
        # Decisions rest on it, so nothing committed may be overlooked. Only Penstock writes here, and never for long.
        found = read_all(self._connection, TOPIC, wait_for_open_transactions=True)
        return {message.key(): message for message in found}.values()

    def key_of(self, letter: DeadLetter) -> Letter:
        """Return a permanent key of a letter, which contains its topic's id."""
        if letter.dead_topic not in self._ids:
            self._ids |= {name: found for name, (found, _) in topics.identify(self._admin, [letter.dead_topic]).items()}
        return (letter.dead_topic, self._ids[letter.dead_topic], letter.dead_partition, letter.dead_offset)

    def _id_of(self, topic: str) -> str:
        """Return a topic's id; nothing if it is not there."""
        try:
            return topics.identify(self._admin, [topic])[topic][0]
        except NotFound:
            return ""

    def find(self, replay_id: str) -> Replay:
        """Return a replay of dead letters with its letters, as they were claimed."""
        entries = self.entries()
        found = entries.replay_of_letters(replay_id)
        chosen: dict[str, dict[int, list[int]]] = {}
        ids: set[tuple[str, str]] = set()
        for (topic, topic_id, partition, offset), settlement in entries.settled.items():
            if settlement.by == replay_id:
                chosen.setdefault(topic, {}).setdefault(partition, []).append(offset)
                ids.add((topic, topic_id))
        for topic, topic_id in sorted(ids):
            if self._id_of(topic) != topic_id:
                raise TopicRecreated(
                    f"the dead-letter topic '{topic}' was deleted or recreated: the letters of the replay {replay_id}"
                    " are gone",
                    safe="Nothing was read from the new one",
                )
        return found.model_copy(update={"letters": chosen})

    def discard(self, letters: Iterable[DeadLetter]) -> int:
        """Settle letters as discarded; return how many were still open."""
        return self._settle(letters, Settlement(state="discarded"), None, lambda _open, _entries: None)

    def claim(self, letters: list[DeadLetter], replay: Replay) -> None:
        """Settle letters as replayed, together with the replay's own record; raise if one of them cannot be claimed."""

        def require_free(chosen: set[Letter], entries: Entries) -> None:
            if already := chosen & entries.settled.keys():
                raise Conflict(
                    f"{len(already)} of these dead letters were settled in the meantime", fix="List them again"
                )
            # Such a range may run the batch of the letter once more, and would then take the replayed row out again.
            for other in entries.replays.values():
                if other.what == "range" and other.state == "started":
                    held = sum(1 for each in letters if each.source_id.startswith(range_source_id(other.id, "")))
                    if held:
                        raise Conflict(
                            f"{held} of these dead letters come from the replay {other.id} of a range, which"
                            " is not finished",
                            safe="Nothing was changed",
                            fix=f"First run: penstock pipeline replay FILE --resume {other.id}",
                        )

        self._settle(letters, Settlement(state="replayed", by=replay.id), replay, require_free)

    def replace(self, letters: list[DeadLetter], replay: Replay) -> int:
        """Settle the open ones of these letters, for the records they stand for are about to be replayed.

        Raise if one is claimed by an unfinished replay: it would write its row beside the new one. The same for a range
        that shares records with this one: each would take the other's rows out, and what one of them has judged dead
        already, it leaves out for good, although the other has settled the letter.
        """

        def require_free(chosen: set[Letter], entries: Entries) -> None:
            claims = [entries.settled[each] for each in chosen & entries.settled.keys()]
            held = [each.by for each in claims if each.state == "replayed" and entries.is_unfinished(each.by)]
            if held:
                raise Conflict(
                    f"the replay {held[0]} has claimed {plural(len(held), 'dead letter')} of this range, and"
                    " is not finished: rows would be doubled",
                    safe="Nothing was changed",
                    fix=f"First run: penstock dead replay --resume {held[0]}",
                )
            for other in entries.replays.values():
                if other.state == "started" and other.id != replay.id and other.overlaps(replay):
                    raise Conflict(
                        f"the replay {other.id} has records of this range, too, and is not finished",
                        safe="Nothing was changed",
                        fix=f"First run: penstock pipeline replay FILE --resume {other.id}",
                    )

        return self._settle(letters, Settlement(state="replaced", by=replay.id), replay, require_free)

    def finish(self, replay: Replay) -> None:
        """Record that a replay is finished; raise `Conflict` if it was given up: others may replay its letters then."""
        options = ProducerOptions(transactional_id=TOPIC)
        with Producer(self._connection, options) as producer, producer.transaction() as transaction:
            known = self.entries().replays.get(replay.id, replay)
            require_not_given_up(known)
            _record(transaction, known.model_copy(update={"state": "done"}))

    def give_up(
        self, replay: Replay, letters: Iterable[DeadLetter], lacking: Iterable[tuple[DeadLetter, str]] = ()
    ) -> int:
        """Record that a replay will not get to its end, and open these of its letters again; return how many those are.

        To be called with letters alone that no sink has got by it. Of others, `lacking` names a sink that has not: they
        stay settled, and come as new letters of that sink. Raise `Conflict` if it was finished meanwhile.
        """
        keys = {self.key_of(letter) for letter in letters}
        copies = list(for_single_sinks(self._connection, lacking))
        limits = [limits_of(self._admin, topic).max_bytes for topic in sorted({each["topic"] for each in copies})]
        options = ProducerOptions(
            transactional_id=TOPIC, record_max_bytes=_RECORD_MAX_BYTES, batch_max_bytes=min([_BATCH_MAX_BYTES, *limits])
        )
        with Producer(self._connection, options) as producer, producer.transaction() as transaction:
            entries = self.entries()
            known = entries.replays.get(replay.id, replay)
            if known.state != "started":
                state = known.state.replace("_", " ")
                raise Conflict(f"the replay {replay.id} is {state} already", safe="Nothing was changed")
            own = [key for key in keys if key in entries.settled and entries.settled[key].by == replay.id]
            for key in own:
                transaction.send(TOPIC, None, key=orjson.dumps(["letter", *key]))
            for each in copies:
                transaction.send(each.pop("topic"), each.pop("value"), **each)
            _record(transaction, known.model_copy(update={"state": "given_up"}))
        return len(own)

    def _settle(
        self,
        letters: Iterable[DeadLetter],
        settlement: Settlement,
        replay: Replay | None,
        require_free: Callable[[set[Letter], Entries], None],
    ) -> int:
        topics.ensure(self._admin, TOPIC, TopicSpec(partitions=1, cleanup="compact"))
        chosen = {self.key_of(letter) for letter in letters}
        options = ProducerOptions(transactional_id=TOPIC)
        with Producer(self._connection, options) as producer, producer.transaction() as transaction:
            # Looked at after everybody else was fenced: what is open now stays open until this transaction ends.
            entries = self.entries()
            require_free(chosen, entries)
            still_open = chosen - entries.settled.keys()
            value = settlement.model_dump_json()
            for letter in still_open:
                transaction.send(TOPIC, value, key=orjson.dumps(["letter", *letter]), headers=_FORMAT)
            if replay is not None:
                _record(transaction, replay)
        return len(still_open)


def range_source_id(replay_id: str, topic_id: str) -> str:
    """Return what stands for a topic's id in a range; by topic, for sinks know partitions by id and number."""
    return f"range-{replay_id}-{topic_id}"


def require_not_given_up(replay: Replay) -> None:
    """Raise `Conflict` if the replay was given up."""
    if replay.state == "given_up":
        raise Conflict(
            f"the replay {replay.id} was given up",
            safe="What it had not written then is open again",
            fix="Begin a new one",
        )


def _record(to: Transaction, replay: Replay) -> None:
    to.send(TOPIC, replay.model_dump_json(), key=orjson.dumps(["replay", replay.id]), headers=_FORMAT)


def _version_of(message: Message) -> object:
    headers: Any = message.headers() or []
    return version_of(headers)
