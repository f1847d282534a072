"""What happens to a pipeline: each fault changes the world, and says with which exit codes the next run may stop."""

import contextlib
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil

from penstock.kafka import topics

from support.histories.world import World
from support.waiting import until

NEVER: frozenset[int] = frozenset()
OUTAGE = frozenset({4})
DISCONTINUITY = frozenset({9})
_POINTS = ["planned", "writing", "prepared", "sink_committed:dead", "committed"]
_KILL_WITHIN_S = 4.0


@dataclass(frozen=True)
class Fault:
    """A fault; `may_stop` are the exit codes that it explains, of this run or of the next."""

    happen: Callable[[World], None]
    may_stop: frozenset[int] = NEVER

    @property
    def name(self) -> str:
        return self.happen.__name__


def crash(world: World) -> None:
    sink = world.dice.choice(world.sinks).kind
    point = world.dice.choice([*_POINTS, f"in_commit:{sink}", f"sink_committed:{sink}"])
    code, error = world.run(PENSTOCK_CRASH_AT=point, PENSTOCK_CRASH_AFTER=str(world.dice.randrange(2)))
    world.tell("crash", point=point, code=code, error=error)
    world.require_ended(code, error, {-9, 0}, f"a driver that was to die at {point}")


def crash_behind_a_sink(world: World) -> None:
    """Die between a sink's commit and the checkpoint."""
    world.send(40)
    world.run(PENSTOCK_CRASH_AT=f"sink_committed:{world.sinks[0].kind}")


def kill(world: World) -> None:
    _signalled(world, signal.SIGKILL, {-9, 0})


def terminate(world: World) -> None:
    _signalled(world, signal.SIGTERM, {0, 130, -signal.SIGTERM})  # the last, before Python listens


def _signalled(world: World, number: signal.Signals, codes: set[int]) -> None:
    log = world.folder / "driver.log"
    before = log.stat().st_size if log.exists() else 0
    process = world.start("run", str(world.file))
    after_s = world.dice.uniform(0, _KILL_WITHIN_S)
    process.join(after_s)
    if process.exitcode is None and process.pid is not None:
        os.kill(process.pid, number)
    code, error = world.ended(process, before)
    world.tell("signalled", signal=number.name, after_s=round(after_s, 2), code=code, error=error)
    world.require_ended(code, error, codes, f"a driver that got {number.name}")


def two_drivers(world: World) -> None:
    """One more driver in the same home is turned away."""
    log = world.folder / "driver.log"
    before = log.stat().st_size if log.exists() else 0
    both = [world.start("run", str(world.file)) for _ in range(2)]
    codes = sorted(world.ended(each, before)[0] for each in both)
    world.tell("two drivers", codes=codes)
    for code in codes:
        world.require_ended(code, "", {0, 6}, "two drivers")
    if codes == [6, 6]:
        world.violations.append("two drivers, and none of them went on")


def drop_table(world: World) -> None:
    sink = world.dice.choice(world.sinks)
    world.tell("drop", sink=sink.kind)
    world.excused[sink.kind] |= world.destroyed
    world.dropped.add(sink.kind)
    sink.drop()


def truncate_table(world: World) -> None:
    for sink in world.sinks:
        if sink.truncate is not None and sink.rows():
            world.tell("truncate", sink=sink.kind)
            world.excused[sink.kind] |= world.destroyed
            world.dropped.add(sink.kind)
            sink.truncate()


def alter_table(world: World) -> None:
    for sink in world.sinks:
        if sink.alter is not None and sink.rows():
            world.tell("alter", sink=sink.kind)
            sink.alter()


def purge(world: World) -> None:
    partition, (first, end) = world.dice.choice(sorted(world.bounds().items()))
    before = world.dice.randint(first, end)
    if before > first:
        world.tell("purge", partition=partition, before=before)
        world.purge(partition, before)


def purge_unread(world: World) -> None:
    """Retention takes what nobody has read yet."""
    for partition, (_, end) in world.bounds().items():
        world.send(40)
        world.purge(partition, end + 1 if world.bounds()[partition][1] > end else end)
    world.tell("purge of what is unread")


def grow(world: World) -> None:
    admin = world.servers.kafka.admin()
    topics.add_partitions(admin, world.name, topics.partition_count(admin, world.name) + 1)
    world.tell("grow")


def grow_and_purge(world: World) -> None:
    """A partition that is purged before anybody has read it."""
    grow(world)
    world.send(60)
    partition, (first, end) = max(world.bounds().items())
    if end > first + 1:
        before = world.dice.randint(first + 1, end)
        world.tell("purge", partition=partition, before=before)
        world.purge(partition, before)


def recreate_topic(world: World) -> None:
    client = world.servers.kafka.admin().client
    for future in client.delete_topics([world.name]).values():
        future.result(30)
    until(lambda: world.name not in world.servers.kafka.admin().metadata("looking").topics)
    world.destroy(lambda spot: spot[0] == world.topic_id)
    world.unseen |= {world.topic_id} - world.seen
    world.make_topic(world.dice.randint(1, 3))
    world.tell("recreate", topic_id=world.topic_id)


def recreate_unread(world: World) -> None:
    """The topic is deleted with a rest that nobody has read."""
    world.send(40)
    recreate_topic(world)


def lose_checkpoint(world: World) -> None:
    shutil.rmtree(world.checkpoint, ignore_errors=True)
    world.tell("checkpoint lost")


def old_checkpoint(world: World) -> None:
    """A restored backup: what was done since then is done once."""
    if not world.checkpoint.exists() or world.explained:
        return
    backup = world.folder / "backup"
    shutil.copytree(world.checkpoint, backup)
    world.send(80)
    world.settle()
    shutil.rmtree(world.checkpoint)
    shutil.move(backup, world.checkpoint)
    world.tell("checkpoint restored")


def cut_checkpoint(world: World) -> None:
    files = sorted(world.checkpoint.glob("*.json")) if world.checkpoint.exists() else []
    if files:
        chosen = world.dice.choice(files)
        chosen.write_bytes(chosen.read_bytes()[: world.dice.choice([0, 7])])
        world.tell("checkpoint cut", file=chosen.name)


def forget_offsets(world: World) -> None:
    """Kafka forgets the offsets of a group that was idle for a week."""
    client = world.servers.kafka.admin().client
    forgotten = []
    for group in [f"penstock.{world.name}.dead", f"penstock.{world.name}.kafka", f"penstock.{world.name}"]:
        if world.dice.random() < 0.6:
            with contextlib.suppress(Exception):  # a group that never was
                for future in client.delete_consumer_groups([group]).values():
                    future.result(30)
                forgotten.append(group)
    world.tell("offsets forgotten", groups=forgotten)


def hang_broker(world: World) -> None:
    node = psutil.Process(int((world.servers.kafka.home / "broker" / "node-1" / "pid").read_text()))
    with _hung(world, [node.pid], "broker"):
        code, error = world.run()
    world.tell("ran", code=code, error=error)
    world.require_ended(code, error, {0, 4}, "a broker that hung for a moment")


def hang_postgres(world: World) -> None:
    with _hung(world, world.servers.postgres.process_ids, "postgres"):
        code, error = world.run()
    world.tell("ran", code=code, error=error)
    world.require_ended(code, error, {0, 4}, "a database that hung for a moment")


@contextlib.contextmanager
def _hung(world: World, pids: list[int], which: str) -> Iterator[None]:
    """Stop processes for a few seconds, somewhere in the run; they go on whatever happens."""
    begins_s, lasts_s = world.dice.uniform(0, 4), world.dice.uniform(0.5, world.longest_hang_s)
    world.tell("hang", server=which, begins_s=round(begins_s, 2), lasts_s=round(lasts_s, 2))

    def hang() -> None:
        time.sleep(begins_s)
        try:
            _each(pids, signal.SIGSTOP)
            time.sleep(lasts_s)
        finally:
            _each(pids, signal.SIGCONT)

    thread = threading.Thread(target=hang)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _each(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def set_clock(world: World) -> None:
    shift_s = world.dice.choice([-86_400 * 400, -3600, 3600, 86_400 * 400])
    code, error = world.run(HISTORY_CLOCK_S=str(shift_s))
    world.tell("clock", shift_s=shift_s, code=code, error=error)
    world.require_ended(code, error, {0}, f"a clock that was set by {shift_s} s")


def fill_disk(world: World) -> None:
    """Neither the driver nor a sink in files finds room for one more byte."""
    if not world.disk.is_mount():
        world.tell("no disk of our own to fill")
        return
    filler = world.disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(bytes(65536))
            file.flush()
    code, error = world.run()
    filler.unlink()
    world.tell("disk full", code=code, error=error)
    world.require_ended(code, error, {0, 4, 7}, "a full disk")


def catch_up(world: World) -> None:
    """Nothing happens, and the driver runs."""
    world.settle()


FAULTS = [
    Fault(crash),
    Fault(crash),
    Fault(crash),
    Fault(kill),
    Fault(kill),
    Fault(terminate),
    Fault(two_drivers),
    Fault(drop_table, DISCONTINUITY),
    Fault(truncate_table, DISCONTINUITY),
    Fault(alter_table),
    Fault(purge, DISCONTINUITY),
    Fault(grow),
    Fault(grow_and_purge, DISCONTINUITY),
    Fault(recreate_topic, DISCONTINUITY),
    Fault(lose_checkpoint, DISCONTINUITY),
    Fault(old_checkpoint),
    Fault(cut_checkpoint, DISCONTINUITY),
    Fault(forget_offsets, DISCONTINUITY),
    Fault(hang_broker, OUTAGE),
    Fault(hang_postgres, OUTAGE),
    Fault(set_clock),
    Fault(fill_disk),
    Fault(catch_up),
]
