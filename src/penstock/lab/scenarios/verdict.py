"""What every scenario ends with: what happened on the way, and all that is not as it should be."""

from dataclasses import dataclass, field

from pydantic import BaseModel, Field

from penstock.lab.scenarios.judge import Difference


class Fact(BaseModel, frozen=True):
    """An event during the scenario."""

    what: str = Field(description="What is reported.")
    value: int | float | str = Field(description="What it was.")


class Verdict(BaseModel, frozen=True):
    """How a scenario ended."""

    scenario: str = Field(description="Its name.")
    seed: int = Field(description="The seed.")
    events: int = Field(description="Events that were sent.")
    facts: list[Fact] = Field(description="What happened on the way.")
    differences: list[Difference] = Field(description="All that is not as it should be; empty if everything is.")
    seconds: float = Field(0.0, description="How long it took, with the start and stop of all servers.")

    @property
    def is_right(self) -> bool:
        """Return whether everything came out as it went in, and what was to be shown did happen."""
        return not self.differences


@dataclass
class Notes:
    """Where a scenario reports what happens."""

    facts: list[Fact] = field(default_factory=list, init=False)
    unmet: list[Difference] = field(default_factory=list, init=False)

    def fact(self, what: str, value: float | str) -> None:
        """Say something for the table at the end."""
        self.facts.append(Fact(what=what, value=value))

    def expect(self, what: str, *, found: str, holds: bool) -> None:
        """Fail the scenario if what it is there to show did not happen."""
        if not holds:
            self.unmet.append(Difference(where="scenario", what=f"not so: {what}", count=1, examples=[found]))
