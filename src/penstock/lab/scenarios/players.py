"""Live players over sockets, and one worker that lands what they do while they do it.

Both can be scaled by hand meanwhile.
"""

import time

from penstock.lab.scenarios.arena import COMBAT
from penstock.lab.scenarios.play import play_live
from penstock.lab.scenarios.scaling import ScaledDriver, wanted
from penstock.lab.scenarios.scenario import Run
from penstock.lab.simulator.simulation import SimulationResult

# So that they play for a while, and the worker lands some events before others happen.
_THINK_S = 0.02


def players(run: Run) -> SimulationResult:
    """Start the worker, let them play, and stop the worker once it has caught up."""
    arena = run.arena
    file = arena.worker(COMBAT, speed="stream", batch={"max_wait": "200ms"})
    worker = ScaledDriver(arena, file)
    try:
        arena.step("starting the worker", 0, 0)
        worker.process.reach(lambda: arena.status() is not None, "it was ready")
        games = run.games.model_copy(update={"think_s": _THINK_S})
        with worker.following():
            played = play_live(arena, games, wanted=lambda: wanted(arena.folder).players)
        ended = time.monotonic()
        status = arena.status()
        run.fact("events landed while they played", status.events if status is not None else 0)
        arena.step("landing the rest", 0, 0)
        worker.process.reach(arena.has_landed_all, "it had landed everything")
        run.fact("seconds of play", round(played.seconds, 1))
        run.fact("events a second, played", round(played.records / played.seconds))
        run.fact("seconds until the last event had landed", round(time.monotonic() - ended, 1))
        for number, workers in enumerate(worker.changes, 1):
            run.fact(f"landing at once, after change {number}", workers)
        if (count := wanted(arena.folder).players) is not None:
            run.fact("players in the end", count)
        worker.process.stop()
    finally:
        worker.process.kill()
    return played
