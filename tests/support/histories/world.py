"""One history's world: a topic, a pipeline with its sinks, everything that was acknowledged, and what was destroyed."""

import json
import random
import re
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from penstock.delivery import gaps
from penstock.kafka import topics
from penstock.lab.bench.throwaway_postgres import RunningPostgres

from conftest import RunningKafka
from support.histories import driver
from support.histories.records import HOSTILE, SCHEMA, TOPIC_CONFIG, Record, draw
from support.histories.sinks import SinkUnderTest, make_sink
from support.waiting import until

Spot = tuple[str, int, int]
"""Topic id, partition and offset: what identifies a record for good."""

_DOCUMENTED = {0, 2, 3, 4, 5, 6, 7, 9, 10, 130}
_ADVICE = re.compile(r"penstock pipeline (rebuild|skip-gap) (\S+)")
_RUN_S = 400
_MOST_TRIES = 6


@dataclass
class Servers:
    """What all histories share."""

    kafka: RunningKafka
    postgres: RunningPostgres
    spark_gateway: Mapping[str, str] = field(repr=False)


@dataclass
class World:
    """See the module."""

    servers: Servers
    dice: random.Random
    folder: Path
    name: str
    sinks: list[SinkUnderTest] = field(default_factory=list)
    sent: int = 0
    acknowledged: dict[Spot, Record] = field(default_factory=dict)
    destroyed: set[Spot] = field(default_factory=set)
    """Records that a fault took from the topic; only these may be in a gap."""
    excused: dict[str, set[Spot]] = field(default_factory=lambda: defaultdict(set))
    """Per sink, what a dropped table cannot get back because the topic no longer has it."""
    dropped: set[str] = field(default_factory=set)
    """Sinks whose rows somebody has deleted, and which nobody has filled again yet."""
    seen: set[str] = field(default_factory=set)
    """Ids that the source topic had when a command of the pipeline ran."""
    unseen: set[str] = field(default_factory=set)
    """Ids of topics that were deleted before any did: only the gap of the topic before can stand for those."""
    story: list[dict[str, Any]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    topic_id: str = ""
    has_begun: bool = False
    """Whether a driver has decided where the pipeline begins."""
    explained: frozenset[int] = frozenset()
    """Exit codes that what has happened since the last quiet moment explains."""
    shapes: Sequence[str] = tuple(HOSTILE)
    """The hostile shapes that are drawn from."""
    longest_hang_s: float = 4.0
    """How long a server may be stopped."""
    sabotage: str = ""
    """What is wrong with this history's driver; nothing, unless the judge is under test."""

    @classmethod
    def draw(cls, servers: Servers, seed: int, folder: Path, kinds: list[str] | None = None) -> "World":
        """Make the world of one seed."""
        dice = random.Random(seed)
        world = cls(servers, dice, folder, f"history-{seed}-{uuid.uuid4().hex[:6]}")
        world.make_topic(dice.randint(1, 3))
        kinds = kinds or dice.sample(["delta", "iceberg", "json", "kafka", "postgres"], dice.randint(1, 2))
        world.sinks = [make_sink(kind, servers.kafka, servers.postgres, world.disk / kind) for kind in kinds]
        pipeline = {
            "name": world.name,
            "source": {"topics": [world.name]},
            "decode": {"type": "json", "schema": SCHEMA},
            "sinks": [sink.spec for sink in world.sinks],
            "batch": {"max_events": dice.choice([60, 200, 5000])},
            "speed": "scheduled",
            "retry": {"give_up_after": "60s"},
        }
        world.file.write_text(yaml.safe_dump(pipeline))
        world.tell("drawn", sinks=kinds, max_events=pipeline["batch"])
        return world

    @property
    def file(self) -> Path:
        return self.folder / "pipeline.yaml"

    @property
    def disk(self) -> Path:
        """Where the driver and the sinks in files write: a small disk of its own, if this machine lets us have one."""
        return self.folder / "disk"

    @property
    def home(self) -> Path:
        return self.disk / "home"

    @property
    def checkpoint(self) -> Path:
        return self.home / "pipelines" / self.name / "checkpoint"

    def tell(self, what: str, **detail: Any) -> None:
        """Write the history down as it happens, so that it can be read after any end."""
        self.story.append({"what": what, **detail})
        with (self.folder / "history.jsonl").open("a") as file:
            file.write(json.dumps(self.story[-1]) + "\n")

    def make_topic(self, partitions: int) -> None:
        """Make the source topic; under a name that was used before it is another topic."""
        admin = self.servers.kafka.admin()
        (future,) = admin.client.create_topics([NewTopic(self.name, partitions, 1, config=TOPIC_CONFIG)]).values()
        future.result(30)

        def known() -> bool:
            try:
                self.topic_id = topics.describe(admin, self.name).topic_id
            except Exception:  # noqa: BLE001 - not everywhere yet
                return False
            return True

        until(known)

    def send(self, count: int) -> None:
        """Send records of all shapes, some of them in transactions, of which some are aborted."""
        records = draw(self.dice, range(self.sent, self.sent + count), self.shapes)
        self.sent += count
        settings: dict[str, Any] = {
            "bootstrap.servers": self.servers.kafka.connection.bootstrap_servers,
            "message.max.bytes": 2_000_000,
            "enable.idempotence": True,
            "linger.ms": 5,
        }
        if self.dice.random() < 0.3:
            self._send_in_transactions({**settings, "transactional.id": f"{self.name}.{self.sent}"}, records)
            return
        producer = Producer(settings)
        kept: list[tuple[Spot, Record]] = []
        self._hand_over(producer, records, kept)
        assert producer.flush(60) == 0, "the broker of the histories does not answer"
        self._acknowledge(kept)

    def _send_in_transactions(self, settings: dict[str, Any], records: list[Record]) -> None:
        producer = Producer(settings)
        producer.init_transactions(30)
        half = len(records) // 2
        for part, is_kept in [(records[:half], True), (records[half:], True), (records[:10], False)]:
            producer.begin_transaction()
            kept: list[tuple[Spot, Record]] = []
            self._hand_over(producer, part, kept)
            if is_kept:
                producer.commit_transaction(30)
                self._acknowledge(kept)
            else:
                producer.flush(30)
                producer.abort_transaction(30)

    def _hand_over(self, producer: Producer, records: list[Record], kept: list[tuple[Spot, Record]]) -> None:
        for record in records:

            def report(error: KafkaError | None, message: Message, record: Record = record) -> None:
                if error is None:
                    spot = (self.topic_id, int(message.partition() or 0), int(message.offset() or 0))
                    kept.append((spot, record))
                else:
                    self.tell("not sent", shape=record.shape, error=str(error))

            options: dict[str, Any] = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
            headers: Any = list(record.headers)
            producer.produce(self.name, record.value, key=record.key, headers=headers, on_delivery=report, **options)

    def _acknowledge(self, kept: list[tuple[Spot, Record]]) -> None:
        self.acknowledged |= dict(kept)
        shapes = Counter(record.shape for _, record in kept)
        self.tell("sent", topic_id=self.topic_id, shapes=dict(shapes))

    def bounds(self) -> dict[int, tuple[int, int]]:
        """First and end offset of each partition."""
        found = topics.describe(self.servers.kafka.admin(), self.name)
        return {part.partition: (int(part.start or 0), int(part.end or 0)) for part in found.partitions}

    def purge(self, partition: int, before: int) -> None:
        """Delete records as retention would."""
        admin = self.servers.kafka.admin()
        futures = admin.client.delete_records([TopicPartition(self.name, partition, before)])
        for future in futures.values():
            future.result(30)
        self.destroy(lambda spot: spot[:2] == (self.topic_id, partition) and spot[2] < before)

    def destroy(self, is_gone: Callable[[Spot], bool]) -> None:
        """Note what is gone from the topic; what went before the pipeline first ran was never its business."""
        gone = {spot for spot in self.acknowledged if is_gone(spot)}
        if self.has_begun:
            self.destroyed |= gone
            for kind in self.dropped:
                self.excused[kind] |= gone
        else:
            self.acknowledged = {spot: each for spot, each in self.acknowledged.items() if spot not in gone}

    def start(self, *arguments: str, **environment: str) -> ForkServerProcess:
        """Start a command of the pipeline's, in a process of its own."""
        self.seen.add(self.topic_id)
        options = ["--home", str(self.home), "--bootstrap", self.servers.kafka.connection.bootstrap_servers]
        sabotage = {"HISTORY_SABOTAGE": self.sabotage} if self.sabotage else {}
        return driver.start(
            [*options, "pipeline", *arguments],
            self.folder,
            self.folder / "driver.log",
            {**self.servers.spark_gateway, **sabotage, **environment},
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str]:
        """Run a command to its end; give its exit code and its last error."""
        log = self.folder / "driver.log"
        before = log.stat().st_size if log.exists() else 0
        process = self.start(*(arguments or ("run", str(self.file))), **environment)
        return self.ended(process, before)

    def ended(self, process: ForkServerProcess, log_from: int) -> tuple[int, str]:
        """Wait for the end of a command."""
        process.join(_RUN_S)
        if process.exitcode is None:
            process.kill()
            process.join()
            self.violations.append(f"a driver did not end within {_RUN_S} s")
        code = process.exitcode or 0
        self.has_begun = self.has_begun or self.checkpoint.exists()
        said = (self.folder / "driver.log").read_bytes()[log_from:].decode(errors="replace")
        errors = [line for line in said.splitlines() if line.startswith(("error:", "interrupted"))]
        if code > 0 and not errors:
            self.violations.append(f"exit code {code} without an error line")
        if code not in _DOCUMENTED and code >= 0:
            self.violations.append(f"exit code {code}: {errors[-1] if errors else said[-300:]}")
        return code, errors[-1] if errors else ""

    def settle(self) -> None:
        """Run the driver until it has caught up, and do what its errors say, as a user would."""
        for _ in range(_MOST_TRIES):
            code, error = self.run()
            self.tell("ran", code=code, error=error)
            if code == 0:
                self.explained = frozenset()
                self.dropped.clear()
                return
            if code not in self.explained:
                self.violations.append(f"stopped with {code} where nothing asks for it: {error}")
            advice = _ADVICE.search(error)
            if advice is not None:
                command = [advice[1], advice[2].rstrip("."), "--yes"]
                code, error = self.run(*command)
                self.tell("did as told", command=" ".join(command), code=code, error=error)
                if code != 0:
                    self.violations.append(f"the advice `{' '.join(command)}` ends with {code}: {error}")
                    return
            elif code not in {4, 6}:
                self.violations.append(f"stopped with {code}, and nothing says how to go on: {error}")
                return
        self.violations.append(f"not caught up after {_MOST_TRIES} tries")

    def require_ended(self, code: int, error: str, expected: set[int], after: str) -> None:
        """Note it if a run under a fault ended as neither the fault nor one before it explains."""
        if code not in expected | self.explained:
            self.violations.append(f"{after}: exit code {code}: {error}")

    def gaps(self) -> list[gaps.Gap]:
        """Read what was recorded as skipped."""
        return gaps.read(self.home / "pipelines" / self.name)
