"""What happens in that day: events by Kafka and by HTTP, a consumer away over midnight, a broker added meanwhile."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from penstock.broker import rebalance
from penstock.broker.cluster import Cluster
from penstock.driver.paths import PipelinePaths
from penstock.errors import NotFound, Transient
from penstock.kafka import groups, topics
from penstock.kafka.admin import Admin
from penstock.kafka.positions import bounds
from penstock.lab.bench.throwaway_kafka import Step
from penstock.lab.scenarios.driver_process import driver
from penstock.lab.scenarios.midnight.day import HOUR_S, MIDNIGHT_S, DayClock, Due
from penstock.lab.scenarios.midnight.senders import Senders, SendingResult
from penstock.lab.scenarios.verdict import Notes
from penstock.lineage.gateway.options import LINEAGE_TOPIC
from penstock.operate import status as states

_GROUP = "penstock.lineage"
_LEAVES_S = MIDNIGHT_S - 2 * HOUR_S
_GONE_S = MIDNIGHT_S - HOUR_S // 2
_GROWS_S = MIDNIGHT_S - HOUR_S // 4
_COMES_BACK_S = MIDNIGHT_S + 2 * HOUR_S
_GROWN_S = MIDNIGHT_S + 6 * HOUR_S


@dataclass
class Night(Notes):
    """One day of the house, from noon to noon, with its night."""

    folder: Path
    """The home folder, whose project file names the cluster."""
    cluster: Cluster
    gateway: str
    """Its address."""
    pipeline: Path
    """The file of the pipeline that fills the store."""
    step: Step
    master: str
    """The Spark that fills the store."""

    def __post_init__(self) -> None:
        self._admin = Admin(self.cluster.connection())
        self._caught_up, self._gone, self._grown = (threading.Event() for _ in range(3))
        self._highest = 0

    def live_through(self, day: Sequence[Due], seconds: float) -> list[SendingResult]:
        """Send the day, with all that happens in it; everything has landed when this returns."""
        clock = DayClock(seconds)
        # However slow this machine is: the consumer has landed the afternoon before it goes, and is gone at midnight;
        # the broker is there at six.
        clock.hold(_LEAVES_S, self._caught_up)
        clock.hold(_GONE_S, self._gone)
        clock.hold(_GROWN_S, self._grown)
        with ExitStack() as stack:
            self.step("starting the consumer", 0, 0)
            consumer = stack.enter_context(driver(self.folder, self.pipeline, "--master", self.master))
            consumer.reach(
                lambda: states.load(PipelinePaths.of(self.folder, "lineage").folder) is not None, "it was ready"
            )
            clock.begin()
            senders = Senders(self.cluster.connection(), self.gateway, LINEAGE_TOPIC, day, clock)
            stack.callback(senders.stop)
            pool = stack.enter_context(ThreadPoolExecutor(1, "broker"))
            stack.callback(senders.given_up.set)
            growth = pool.submit(self._grow, clock, senders.given_up)
            self.step("from noon to 22:00", 0, 0)
            clock.wait_until(_LEAVES_S, senders.given_up)
            afternoon = self._ends()
            consumer.reach(lambda: self._has_landed(afternoon), "it had landed the afternoon")
            self._caught_up.set()
            self.step("stopping the consumer before midnight", 0, 0)
            consumer.stop()
            self._highest = 0
            left = time.monotonic()
            self._gone.set()
            self.step("midnight, without a consumer", 0, 0)
            clock.wait_until(_COMES_BACK_S, senders.given_up)
            self._come_back(stack, day, left, senders, growth)
            ways = senders.finish()
        for way in ways:
            self.expect(f"nothing was refused by {way.way}", found=f"{way.refused} calls were", holds=way.refused == 0)
            self.expect(
                f"no sender by {way.way} waited for the consumer",
                found=f"a call took {way.slowest_ms:,.0f} ms",
                holds=way.slowest_ms < 1000 * self._away_s,
            )
        return ways

    def _come_back(
        self, stack: ExitStack, day: Sequence[Due], left: float, senders: Senders, growth: "Future[None]"
    ) -> None:
        self.step("the consumer comes back", 0, 0)
        backlog, ends = self._lag(), self._ends()
        back = time.monotonic()
        self._away_s = back - left
        consumer = stack.enter_context(driver(self.folder, self.pipeline, "--master", self.master))
        consumer.reach(lambda: self._has_landed(ends), "the backlog was drained")
        self.fact("seconds without a consumer", round(self._away_s, 1))
        self.fact("backlog when it came back", backlog)
        self.fact("backlog at its highest", self._highest)
        self.fact("seconds until it was drained, with the start", round(time.monotonic() - back, 1))
        at_midnight = sum(MIDNIGHT_S <= each.due_s < MIDNIGHT_S + HOUR_S for each in day)
        self.expect(
            "the events of the hour after midnight had to wait for the consumer",
            found=f"{backlog} waited, and {at_midnight} had come",
            holds=backlog >= at_midnight > 0,
        )
        self.step("the rest of the day", 0, 0)
        consumer.reach(lambda: senders.are_done, "the day was over")
        growth.result()
        consumer.reach(lambda: self._lag() == 0, "it had landed everything")
        consumer.stop()

    def _grow(self, clock: DayClock, given_up: threading.Event) -> None:
        """Add a broker, and give it its share of the topic."""
        try:
            if not clock.wait_until(_GROWS_S, given_up):
                return
            began = time.monotonic()
            added = self.cluster.add_node().id
            classpath = self.cluster.classpath()
            moves = rebalance.plan(self._admin, classpath, topics=[LINEAGE_TOPIC])
            rebalance.execute(self._admin, moves, classpath, lambda _done, _total: None)
            leaders = [part.leader for part in topics.describe(self._admin, LINEAGE_TOPIC).partitions]
            self.fact("seconds until the new broker had its share", round(time.monotonic() - began, 1))
            self.fact("partitions that it leads", leaders.count(added))
            self.expect("a broker was added that leads partitions", found="it leads none", holds=added in leaders)
        finally:
            self._grown.set()

    def _ends(self) -> dict[tuple[str, int], int]:
        parts = [(LINEAGE_TOPIC, number) for number in range(topics.partition_count(self._admin, LINEAGE_TOPIC))]
        return {part: end for part, (_, end) in bounds(self._admin, parts).items()}

    def _lag(self) -> int:
        """Count what is not in the store yet; a guess upwards while Kafka has no answer."""
        try:
            found = groups.describe(self._admin, _GROUP).lag
        except NotFound:  # nothing has landed yet
            found = sum(self._ends().values())
        except Transient:
            return self._highest or 1
        self._highest = max(self._highest, found)
        return found

    def _has_landed(self, ends: dict[tuple[str, int], int]) -> bool:
        """Return whether all has landed that was there at some time."""
        self._lag()
        try:
            reached = groups.committed(self._admin, _GROUP)
        except (NotFound, Transient):
            return False
        return all(reached.get(part, 0) >= end for part, end in ends.items())
