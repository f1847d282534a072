"""Superhero combat: games that feed the pipelines, and the truth to compare their tables with."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.lab.simulator.sending import Destination, simulate_to
    from penstock.lab.simulator.simulation import SimulationOptions, simulate
    from penstock.lab.simulator.truth import read_truth

__all__ = ["Destination", "SimulationOptions", "read_truth", "simulate", "simulate_to"]

_DEFINED_IN = {
    "Destination": "sending",
    "SimulationOptions": "simulation",
    "read_truth": "truth",
    "simulate": "simulation",
    "simulate_to": "sending",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: a player's process needs none of them."""
    if name not in _DEFINED_IN:
        raise AttributeError(f"module 'penstock.lab.simulator' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"penstock.lab.simulator.{_DEFINED_IN[name]}"), name)
