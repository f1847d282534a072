"""Rebalance: a consumer joins, leaves, and dies by kill -9; how long until its partitions have a new owner."""

import time

from penstock.lab.drills.drill import Drill, Stage, as_text

_PARTITIONS = 6
_SESSION_S = 6


def run(stage: Stage) -> None:
    """Change the group three times, and take the time."""
    topic = stage.topic("work", partitions=_PARTITIONS)
    group = stage.name("team")
    with stage.step(f"Two consumers share {_PARTITIONS} partitions", expected="3 + 3") as step:
        ann, _ = stage.member("ann", topic=topic, group=group), stage.member("bob", topic=topic, group=group)
        before = stage.wait_for_shares(group, [3, 3])
        step.saw(as_text([len(owned) for owned in before.values()]), passed=True)
    with stage.step(
        "A third consumer joins",
        expected="2 + 2 + 2; only two partitions move, the others are read on (cooperative rebalancing)",
    ) as step:
        began = time.monotonic()
        cid = stage.member("cid", topic=topic, group=group)
        after = stage.wait_for_shares(group, [2, 2, 2])
        moved = [each for name, owned in after.items() for each in owned if each not in before.get(name, [])]
        step.saw(
            f"{as_text([len(owned) for owned in after.values()])}, {len(moved)} partitions moved,"
            f" {time.monotonic() - began:.1f} s after the start of its process",
            passed=len(moved) == len(after["cid"]),
        )
    with stage.step(
        "It leaves again, properly",
        expected="3 + 3 in a moment: it said goodbye, nobody has to miss it first",
    ) as step:
        cid.leave()
        left = _reassigned(stage, group, time.monotonic())
        step.saw(f"3 + 3, {left:.1f} s after it had left", passed=left < _SESSION_S)
    with stage.step(
        "ann is killed with kill -9",
        expected=f"bob gets all {_PARTITIONS}, but only after the session timeout of {_SESSION_S} s: until then the"
        " group believes that ann is alive, and her partitions rest",
    ) as step:
        ann.kill()
        died_at = time.monotonic()
        stage.wait_for_shares(group, [_PARTITIONS], timeout_s=40.0)
        crashed = time.monotonic() - died_at
        step.saw(
            f"bob has all {_PARTITIONS}, {crashed:.1f} s after the kill; leaving took {left:.1f} s",
            passed=crashed > _SESSION_S - 1,
        )


def _reassigned(stage: Stage, group: str, since: float) -> float:
    stage.wait_for_shares(group, [3, 3])
    return time.monotonic() - since


DRILL = Drill(
    name="rebalance",
    about="a consumer joins, leaves and dies: how long until its partitions have a new owner",
    background="""\
Whenever a group changes, its partitions are assigned again. A consumer that leaves says so. One that
dies does not: the group notices when its heartbeats have been missing for the session timeout.""",
    run=run,
)
