"""No worker while the whole simulation runs; what has piled up drains once they start."""

from penstock.lab.scenarios.play import play_live
from penstock.lab.scenarios.scenario import Run
from penstock.lab.simulator.simulation import SimulationResult


def dead_workers(run: Run) -> SimulationResult:
    """Play to the end, and tell how much waits for the workers."""
    played = play_live(run.arena, run.games)
    waiting = run.arena.lag()
    run.fact("lag before the workers start", waiting)
    run.expect(
        "everything waits for the workers", found=f"{waiting} of {played.records}", holds=waiting == played.records
    )
    return played
