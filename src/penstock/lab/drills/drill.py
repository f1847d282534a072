"""What drills share: steps that explain themselves, bounded waits, and nodes that die and come back.

A step says what is done and what is expected before it happens, and what was seen afterwards. A wait that runs out
and an error of Kafka are a failed step, and end the drill; a step that saw something else is failed, too, and the
drill goes on. Whatever a drill breaks or starts is fixed and ended by `perform`.
"""

import itertools
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psutil
from confluent_kafka.admin import PartitionMetadata
from pydantic import BaseModel, Field

from penstock.broker.cluster import Cluster
from penstock.config.project import LocalCluster
from penstock.errors import BrokerUnavailable, NotFound, PenstockError, Transient
from penstock.kafka import cluster as kafka_cluster
from penstock.kafka import groups, topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.groups import GroupDetail
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.drills.member import Member, MemberTask

Seen = TypeVar("Seen")
_LOOK_EVERY_S = 0.05
_TELL_AFTER_S = 2.0
_DIE_S = 30.0
_FIX_S = 60.0
_ADMIN_S = 5.0
_WIDTH = 110


class StepResult(BaseModel, frozen=True):
    """One step of a drill, as it went."""

    drill: str = Field(description="The drill.")
    step: int = Field(description="Number of the step, from 1.")
    did: str = Field(description="What was done.")
    expected: str = Field(description="What the textbook says.")
    happened: str = Field(description="What was seen.")
    passed: bool = Field(description="Whether the two agree.")
    seconds: float = Field(description="How long it took.")


class Narrator(Protocol):
    """Who talks to the user."""

    def say(self, line: str) -> None:
        """Say one line."""

    def waiting(self, what: str, passed_s: float, limit_s: float) -> None:
        """Show a wait that takes longer than two seconds; called again and again while it lasts."""

    def waited(self) -> None:
        """Hear that the wait is over."""


class Step:
    """A step that is going on."""

    def __init__(self) -> None:
        self.happened = "the drill did not look"
        self.passed = False

    def saw(self, happened: str, *, passed: bool) -> None:
        """Settle the step."""
        self.happened, self.passed = happened, passed


class Stage:
    """The cluster a drill runs on, and the story it tells. Names of topics and groups are never given twice."""

    _numbers = itertools.count(1)

    def __init__(self, cluster: Cluster, folder: Path, narrator: Narrator) -> None:
        self.cluster = cluster
        self.connection: Connection = cluster.connection()
        self.results: list[StepResult] = []
        self.drill = ""
        self._folder = folder
        self._narrator = narrator
        self._members: list[Member] = []
        self._broken = False

    @cached_property
    def admin(self) -> Admin:
        """The administrator's connection."""
        return Admin(self.connection, timeout_s=_ADMIN_S)

    # ── The story ────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def step(self, did: str, *, expected: str) -> Iterator[Step]:
        """Do one step. The block calls `saw`; an error of Penstock fails the step and ends the drill."""
        number = 1 + sum(result.drill == self.drill for result in self.results)
        self._narrator.say("\n" + _wrapped(f"  {number}. ", did, indent=5))
        self._narrator.say(_wrapped("     expected  ", expected))
        step = Step()
        began = time.monotonic()

        def settled() -> StepResult:
            return StepResult(
                drill=self.drill,
                step=number,
                did=did,
                expected=expected,
                happened=step.happened,
                passed=step.passed,
                seconds=round(time.monotonic() - began, 1),
            )

        try:
            yield step
        except PenstockError as error:
            step.saw(str(error), passed=False)
            self._record(settled())
            raise
        self._record(settled())

    def _record(self, result: StepResult) -> None:
        self._narrator.say(_wrapped("     happened  ", result.happened))
        self._narrator.say(f"     {'pass' if result.passed else 'FAIL'}      after {result.seconds} s")
        self.results.append(result)

    def wait(self, what: str, look: Callable[[], Seen | None], *, timeout_s: float = 30.0) -> Seen:
        """Look until there is something to see, and return it; `BrokerUnavailable` after `timeout_s`."""
        began = time.monotonic()
        trouble = ""
        try:
            while (passed_s := time.monotonic() - began) < timeout_s:
                try:
                    if seen := look():
                        return seen
                except Transient as error:
                    # Nodes come and go here: an answer that fails is asked for again.
                    trouble = f" (last: {error.what})"
                if passed_s > _TELL_AFTER_S:
                    self._narrator.waiting(what, passed_s, timeout_s)
                time.sleep(_LOOK_EVERY_S)
        finally:
            self._narrator.waited()
        raise BrokerUnavailable(f"waited {timeout_s:.0f} s in vain for {what}{trouble}")

    # ── Topics and groups ────────────────────────────────────────────────────────────────────────────────

    def name(self, what: str) -> str:
        """Make a name that no other drill uses."""
        return f"{self.drill}-{what}-{next(self._numbers)}"

    def topic(self, what: str = "topic", **spec: Any) -> str:
        """Make a topic that every node knows, with three replicas of which two must be in sync."""
        name = self.name(what)
        topics.create(self.admin, name, TopicSpec(**spec))
        self.settle(name)
        return name

    def settle(self, topic: str) -> None:
        """Wait until every node has heard of every partition: until then, one may still deny that it is there.

        A node makes the folder of its replica after it has taken note of the partition, and every node has a replica.
        """
        numbers = range(topics.partition_count(self.admin, topic))
        folders = [self.cluster.node(node.id).data for node in self.cluster.existing().nodes]
        self.wait(
            f"every node to know topic '{topic}'",
            lambda: all((folder / f"{topic}-{number}").is_dir() for folder in folders for number in numbers),
        )

    def partition(self, topic: str, number: int = 0) -> PartitionMetadata:
        """Return a partition's leader and ISR, as a node that is alive tells it."""
        return self.partitions(topic)[number]

    def partitions(self, topic: str) -> dict[int, PartitionMetadata]:
        """Return leader and ISR of every partition."""
        return self.admin.metadata(f"looking at topic '{topic}'").topics[topic].partitions

    def group(self, name: str) -> GroupDetail | None:
        """Look at a group; None until it is there and settled."""
        with suppress(NotFound):
            found = groups.describe(self.admin, name)
            return found if found.state == "stable" else None
        return None

    def shares(self, name: str) -> dict[str, list[str]] | None:
        """Return partitions by member of a settled group."""
        found = self.group(name)
        return {member.client_id: member.partitions for member in found.members} if found else None

    def wait_for_shares(self, group: str, sizes: Sequence[int], *, timeout_s: float = 30.0) -> dict[str, list[str]]:
        """Wait until the group is settled and its members own this many partitions each, in any order."""

        def look() -> dict[str, list[str]] | None:
            shares = self.shares(group)
            return shares if shares and sorted(sizes) == sorted(map(len, shares.values())) else None

        return self.wait(f"the group to share its partitions {as_text(sizes)}", look, timeout_s=timeout_s)

    def member(self, name: str, **task: Any) -> Member:
        """Start a consumer in a process of its own."""
        started = Member(MemberTask(name=name, connection=self.connection, **task), self._folder / self.name(name))
        self._members.append(started)
        return started

    # ── Nodes ────────────────────────────────────────────────────────────────────────────────────────────

    def kill_node(self, node_id: int) -> None:
        """End a node with kill -9: it says goodbye to nobody."""
        self._broken = True
        process = self._process(node_id)
        process.kill()
        process.wait(_DIE_S)

    @contextmanager
    def frozen(self, node_ids: Sequence[int]) -> Iterator[None]:
        """Stop nodes in mid-air for a moment, as a long garbage collection does."""
        processes = [self._process(node_id) for node_id in node_ids]
        try:
            for process in processes:
                process.suspend()
            yield
        finally:
            for process in processes:
                process.resume()

    def fix(self) -> None:
        """Start what was killed, and wait until every replica of every topic is in sync."""
        self.cluster.up(LocalCluster())
        self.wait(
            "every replica to be in sync",
            lambda: not kafka_cluster.describe(self.admin).under_replicated,
            timeout_s=_FIX_S,
        )
        self._broken = False

    def fix_if_broken(self) -> None:
        """Leave a whole cluster to the next drill."""
        if self._broken:
            self.fix()

    def end_members(self) -> None:
        """End the consumers that are left."""
        for member in self._members:
            member.kill()
        self._members.clear()

    def _process(self, node_id: int) -> psutil.Process:
        process = self.cluster.node(node_id).process()
        if process is None:
            raise NotFound(f"node {node_id} is not running")
        return process

    def begin(self, drill: "Drill") -> None:
        """Return what is coming."""
        self.drill = drill.name
        self._narrator.say(f"\n{drill.name}: {drill.about}\n\n  " + "\n  ".join(drill.background.strip().splitlines()))


@dataclass(frozen=True)
class Drill:
    """A drill: its name, what it shows in a line, what to know beforehand, and the steps."""

    name: str
    about: str
    background: str
    run: Callable[[Stage], None]


def perform(drill: Drill, stage: Stage) -> list[StepResult]:
    """Run one drill and leave the cluster whole; return its steps, of which a failed one may be the last."""
    stage.begin(drill)
    try:
        _run(drill, stage)
    finally:
        stage.end_members()
    stage.fix_if_broken()
    return [result for result in stage.results if result.drill == drill.name]


def _run(drill: Drill, stage: Stage) -> None:
    try:
        drill.run(stage)
    except PenstockError as error:
        failed = stage.results and stage.results[-1].drill == drill.name and not stage.results[-1].passed
        if not failed:
            with stage.step("Prepare the next step", expected="no error") as step:
                step.saw(str(error), passed=False)


def _wrapped(label: str, text: str, *, indent: int = 15) -> str:
    return textwrap.fill(label + text, _WIDTH, subsequent_indent=" " * indent, drop_whitespace=True)


def as_text(numbers: Sequence[int]) -> str:
    """Write shares as people say them: 2 + 1."""
    return " + ".join(map(str, sorted(numbers, reverse=True)))
