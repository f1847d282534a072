"""The contract of a part: whatever `penstock up` starts beside Kafka, and what the project file says of it."""

from typing import Literal, Protocol

from pydantic import BaseModel, Field

Kind = Literal["service", "connector", "pipeline"]


class Part(Protocol):
    """One service, connector or pipeline, as the project file has it."""

    @property
    def name(self) -> str:
        """Return the name by which commands know it; no two parts have one."""

    @property
    def kind(self) -> Kind:
        """Return what it is."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the names of the parts that have to be ready before it is started."""

    def digest(self) -> str:
        """Return a digest that differs if and only if it would be started differently."""

    def is_running(self) -> bool:
        """Return whether it runs, or is about to be restarted."""

    def start(self) -> None:
        """Start it in the background; raise if that is not possible. Called only if it does not run."""

    def wait(self) -> str:
        """Wait until it has handled a real request; return a line about it. Raise if it does not come up."""

    def stop(self) -> None:
        """Stop it; what it has written stays."""


class Step(BaseModel, frozen=True):
    """One step of a plan."""

    part: str = Field(description="The part.")
    kind: Literal["cluster", "service", "connector", "pipeline"] = Field(description="What it is.")
    action: Literal["start", "restart", "keep", "stop"] = Field(description="What will be done.")
    detail: str = Field(description="Why.")
