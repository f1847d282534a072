"""Workers killed with -9 in the middle of a batch, more than once, and started again."""

from functools import partial

import orjson

from penstock.lab.scenarios.arena import COMBAT, PODIUM, Arena
from penstock.lab.scenarios.driver_process import driver
from penstock.lab.scenarios.play import play_fast
from penstock.lab.scenarios.scenario import Run
from penstock.lab.simulator.simulation import SimulationResult
from penstock.operate.known_pipelines import paths_of

_KILLS = 2
_BATCHES = 12
_BATCHES_BETWEEN = 2


def kill_worker(run: Run) -> SimulationResult:
    """Kill the landing worker twice, and the podium's once over what has landed; those that follow finish the work."""
    arena = run.arena
    played = play_fast(arena, run.games)
    file = arena.worker(COMBAT, batch={"max_events": max(1, played.records // _BATCHES)})
    for kill in range(1, _KILLS + 1):
        arena.step(f"landing until kill {kill}", 0, 0)
        with driver(arena.folder, file, "--master", arena.master) as worker:
            until = partial(_is_in_batch, arena, kill * _BATCHES_BETWEEN)
            worker.reach(until, "it was killed")
            worker.kill()
        landed = len(arena.rows(COMBAT))
        run.fact(f"landed when killed for the {kill}. time, in batch {_batch_at_work(arena)}", landed)
        run.expect("the kill came in mid-work", found=f"{landed} had landed", holds=0 < landed < played.records)
    _kill_podium(run)
    return played


def _is_in_batch(arena: Arena, least: int) -> bool:
    return _batch_at_work(arena) > least


def _batch_at_work(arena: Arena) -> int:
    """Return the number of the batch that is planned and not done; 0 between two batches."""
    folder = paths_of(arena.settings, COMBAT).checkpoint
    try:
        planned, committed = (
            orjson.loads((folder / f"{name}.json").read_bytes())["batch"] for name in ("planned", "committed")
        )
    except FileNotFoundError:
        return 0
    return int(planned) if planned > committed else 0


def _kill_podium(run: Run) -> None:
    arena = run.arena
    arena.step("the podium until its kill", 0, 0)
    source = {"type": "delta", "path": "tables/combat", "max_files": 2}
    file = arena.worker(PODIUM, source=source)
    with driver(arena.folder, file, "--master", arena.master) as worker:
        # It says so after its first batch, and there are more.
        worker.reach(
            lambda: (status := arena.status(PODIUM)) is not None and status.state == "running", "it was killed"
        )
        worker.kill()
    run.fact("rows of the podium when its worker was killed", len(arena.rows(PODIUM)))
