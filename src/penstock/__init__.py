"""Penstock: every Kafka event in your tables exactly once."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.pipeline.handlers import Pipeline as Pipeline
    from penstock.pipeline.spec import PipelineSpec as PipelineSpec
    from penstock.steps.handlers import Batcher as Batcher
    from penstock.steps.handlers import OnFailure as OnFailure
    from penstock.steps.message import BatchInfo as BatchInfo
    from penstock.steps.message import Message as Message

__version__ = "0.1.0"

_HOMES = {
    "BatchInfo": "penstock.steps.message",
    "Batcher": "penstock.steps.handlers",
    "Message": "penstock.steps.message",
    "OnFailure": "penstock.steps.handlers",
    "Pipeline": "penstock.pipeline.handlers",
    "PipelineSpec": "penstock.pipeline.spec",
}


def __getattr__(name: str) -> Any:
    """Import what a pipeline file needs when it asks: most commands need none of it, and start sooner without."""
    if name not in _HOMES:
        raise AttributeError(f"module 'penstock' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
