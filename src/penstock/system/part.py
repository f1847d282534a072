"""The contract of a part: whatever `penstock up` starts beside Kafka, and what stands in the project file for it."""

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
        """Return another text when it would be started in another way; the same as long as nothing differs."""

    def is_running(self) -> bool:
        """Return whether it runs, or somebody is about to start it again."""

    def start(self) -> None:
        """Put it into the background; raise if that cannot be done. It does not run yet."""

    def wait(self) -> str:
        """Wait until something real went through it; return the line that says so. Raise if it does not come up."""

    def stop(self) -> None:
        """End it; what it has written stays."""


class Step(BaseModel, frozen=True):
    """One step of a plan."""

    part: str = Field(description="The part.")
    kind: Literal["cluster", "service", "connector", "pipeline"] = Field(description="What it is.")
    action: Literal["start", "restart", "keep", "stop"] = Field(description="What will be done.")
    detail: str = Field(description="Why.")
