"""Nothing, then an hour's events at once, in batches that stay bounded.

An hour is that of 100 players: 25 games at a time, each with a move a second, make 90,000 events.
"""

import time

from penstock.lab.scenarios.arena import COMBAT
from penstock.lab.scenarios.driver_process import driver
from penstock.lab.scenarios.play import play_fast
from penstock.lab.scenarios.scenario import Run
from penstock.lab.simulator.simulation import SimulationResult
from penstock.operate import history

PLAYERS = 100
GAMES = 3200
_MAX_EVENTS = 10_000


def spike(run: Run) -> SimulationResult:
    """Let the worker wait for nothing, then send everything as fast as one process can."""
    arena = run.arena
    file = arena.worker(COMBAT, speed="stream", batch={"max_events": _MAX_EVENTS, "max_wait": "200ms"})
    with driver(arena.folder, file, "--master", arena.master) as worker:
        arena.step("starting the worker", 0, 0)
        worker.reach(lambda: arena.status() is not None, "it was ready")
        began = time.monotonic()
        played = play_fast(arena, run.games)
        sent = time.monotonic()
        run.fact("events at once", played.records)
        run.fact("sent within seconds", round(sent - began, 1))
        arena.step("landing them", 0, 0)
        worker.reach(arena.has_landed_all, "it had landed everything")
        run.fact("landed within seconds, from the first one on", round(time.monotonic() - began, 1))
        worker.stop()
    batches = [each.events for each in history.batches(arena.folder, COMBAT, played.records)]
    run.fact("batches", len(batches))
    run.fact("events of the largest batch", max(batches))
    run.expect(f"no batch has more than {_MAX_EVENTS}", found=str(max(batches)), holds=max(batches) <= _MAX_EVENTS)
    return played
