"""Live players over sockets, and one worker that lands what they do while they do it."""

import time

from penstock.lab.scenarios.arena import COMBAT
from penstock.lab.scenarios.driver_process import driver
from penstock.lab.scenarios.play import play_live
from penstock.lab.scenarios.scenario import Run
from penstock.lab.simulator.simulation import SimulationResult

# So that they play for a while, and the worker lands some events before others happen.
_THINK_S = 0.02


def players(run: Run) -> SimulationResult:
    """Start the worker, let them play, and stop the worker once it has caught up."""
    arena = run.arena
    file = arena.worker(COMBAT, speed="stream", batch={"max_wait": "200ms"})
    with driver(arena.folder, file) as worker:
        arena.step("starting the worker", 0, 0)
        worker.reach(lambda: arena.status() is not None, "it was ready")
        played = play_live(arena, run.games.model_copy(update={"think_s": _THINK_S}))
        ended = time.monotonic()
        status = arena.status()
        run.fact("events landed while they played", status.events if status is not None else 0)
        arena.step("landing the rest", 0, 0)
        worker.reach(arena.has_landed_all, "it had landed everything")
        run.fact("seconds of play", round(played.seconds, 1))
        run.fact("events a second, played", round(played.records / played.seconds))
        run.fact("seconds until the last event had landed", round(time.monotonic() - ended, 1))
        worker.stop()
    return played
