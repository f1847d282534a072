"""One history from its seed to the verdict."""

from collections.abc import Sequence
from pathlib import Path

from support.histories.faults import FAULTS, Fault
from support.histories.judge import judge, unexplained
from support.histories.records import HOSTILE
from support.histories.sinks import read_letters
from support.histories.small_disk import small_disk
from support.histories.world import Servers, World


def live(
    servers: Servers,
    seed: int,
    folder: Path,
    *,
    sabotage: str = "",
    kinds: list[str] | None = None,
    faults: Sequence[Fault] | None = None,
    shapes: Sequence[str] = tuple(HOSTILE),
    longest_hang_s: float = 4.0,
) -> World:
    """Live through a history; what was wrong is in its `violations`, what happened in its `story`."""
    with small_disk(folder / "disk"):
        world = World.draw(servers, seed, folder, kinds)
        world.sabotage, world.shapes, world.longest_hang_s = sabotage, shapes, longest_hang_s
        schedule = [world.dice.choice(FAULTS) for _ in range(3)] if faults is None else faults
        _live_through(world, schedule)
        _judge(world)
    return world


def _live_through(world: World, schedule: Sequence[Fault]) -> None:
    world.send(world.dice.randrange(80, 400))
    for fault in schedule:
        if world.dice.random() < 0.5:
            # Otherwise faults pile up before anybody looks.
            world.settle()
        world.tell("fault", name=fault.name)
        fault.happen(world)
        world.explained |= fault.may_stop
        world.send(world.dice.randrange(20, 200))
    world.settle()


def _judge(world: World) -> None:
    letters = read_letters(world.servers.kafka, f"{world.name}.dead")
    gaps = world.gaps()
    for sink in world.sinks:
        rows = sink.rows()
        world.violations += judge(
            sink.kind, world.acknowledged, rows, letters, gaps, world.destroyed, world.excused[sink.kind], world.unseen
        )
        world.tell("judged", sink=sink.kind, rows=len(rows))
    world.violations += unexplained(gaps, world.acknowledged, world.destroyed)
    world.tell(
        "verdict",
        records=len(world.acknowledged),
        letters=len(letters),
        gaps=len(gaps),
        violations=world.violations[:20],
    )
