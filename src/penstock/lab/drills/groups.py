"""Groups: 3 partitions shared by 2, 3 and 4 consumers."""

from penstock.lab.drills.drill import Drill, Stage, as_text

_PARTITIONS = 3


def run(stage: Stage) -> None:
    """Add consumers one by one, then take one away."""
    topic = stage.topic("work", partitions=_PARTITIONS)
    group = stage.name("team")
    members = {name: stage.member(name, topic=topic, group=group) for name in ("ann", "bob")}
    _expect(stage, group, "Two consumers", [2, 1], "one has two partitions, the other one")
    members["cid"] = stage.member("cid", topic=topic, group=group)
    _expect(stage, group, "A third consumer joins", [1, 1, 1], "one partition each")
    members["dan"] = stage.member("dan", topic=topic, group=group)
    shares = _expect(
        stage, group, "A fourth consumer joins", [1, 1, 1, 0], "one is idle: a partition is never shared in a group"
    )
    idle = next(name for name, owned in shares.items() if not owned)
    busy = next(name for name, owned in shares.items() if owned)
    with stage.step(
        f"{busy} leaves",
        expected=f"{idle}, which was idle, takes over its partition: idle consumers are spares",
    ) as step:
        members[busy].leave()
        shares = stage.wait_for_shares(group, [1, 1, 1])
        step.saw(_listed(shares), passed=bool(shares[idle]))


def _expect(stage: Stage, group: str, did: str, sizes: list[int], meaning: str) -> dict[str, list[str]]:
    with stage.step(f"{did}, for {_PARTITIONS} partitions", expected=f"{as_text(sizes)}: {meaning}") as step:
        shares = stage.wait_for_shares(group, sizes)
        owned = [partition for share in shares.values() for partition in share]
        step.saw(_listed(shares), passed=len(owned) == len(set(owned)) == _PARTITIONS)
    return shares


def _listed(shares: dict[str, list[str]]) -> str:
    """Return who has which partitions, without the topic's long name."""
    return "; ".join(
        f"{name} has {' and '.join(partition.rpartition('/')[2] for partition in owned) or 'none'}"
        for name, owned in sorted(shares.items())
    )


DRILL = Drill(
    name="groups",
    about="3 partitions for 2, 3 and 4 consumers of a group: who gets what, and who is idle",
    background="""\
Consumers with the same group name share a topic. Each partition belongs to exactly one of them, so
the number of partitions is the most consumers that can work at a time.""",
    run=run,
)
