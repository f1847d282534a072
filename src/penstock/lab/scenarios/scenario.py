"""What a scenario is, what it ends with, and performing one: play, land, compare."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, Field

from penstock.delivery import selection
from penstock.delivery.selection import Filter, Reason
from penstock.lab.scenarios.arena import COMBAT, META, PODIUM, Arena, Step, open_arena
from penstock.lab.scenarios.judge import (
    Difference,
    judge_landing,
    judge_meta,
    judge_podium,
    judge_reasons,
    judge_sending,
)
from penstock.lab.scenarios.local_workers import one_spark, run_workers
from penstock.lab.scenarios.play import Games
from penstock.lab.scenarios.sinks import SinkKind
from penstock.lab.simulator.simulation import SimulationResult
from penstock.lab.simulator.truth import read_truth


class Fact(BaseModel, frozen=True):
    """Something that happened on the way."""

    what: str = Field(description="What is reported.")
    value: int | float | str = Field(description="What it was.")


class SinkAccount(BaseModel, frozen=True):
    """One sink, read afresh."""

    sink: str = Field(description="The sink.")
    sent: int = Field(description="Records in the topic.")
    landed: int = Field(description="Rows in the sink.")
    dead: int = Field(description="Dead letters.")
    difference: int = Field(description="Sent, less landed and dead.")


class Outcome(BaseModel, frozen=True):
    """How a scenario ended."""

    scenario: str = Field(description="Its name.")
    players: int = Field(description="Users who played.")
    games: int = Field(description="Games that ended.")
    seed: int = Field(description="The seed.")
    events: int = Field(description="Events that the simulator sent.")
    malformed: int = Field(description="Malformed records that it sent among them.")
    sinks: list[SinkAccount] = Field(description="The account of every sink.")
    lag: int = Field(description="What was left to land.")
    podium: int = Field(description="Rows of the podium.")
    truth: int = Field(description="Rows that it should have.")
    facts: list[Fact] = Field(description="What happened on the way.")
    reasons: list[Reason] = Field(description="Dead letters by reason.")
    differences: list[Difference] = Field(description="All that is not as it should be; empty if everything is.")
    seconds: float = Field(description="How long it took, with the start and stop of all servers.")

    @property
    def is_right(self) -> bool:
        """Return whether sent = landed + dead everywhere, and the workers' tables are the truth."""
        return not self.differences


@dataclass
class Run:
    """What a scenario is given, and where it reports what happened."""

    arena: Arena
    games: Games
    facts: list[Fact] = field(default_factory=list)
    unmet: list[Difference] = field(default_factory=list)

    def fact(self, what: str, value: float | str) -> None:
        """Say something for the table at the end."""
        self.facts.append(Fact(what=what, value=value))

    def expect(self, what: str, *, found: str, holds: bool) -> None:
        """Fail the scenario if what it is there to show did not happen."""
        if not holds:
            self.unmet.append(Difference(where="scenario", what=f"not so: {what}", count=1, examples=[found]))


@dataclass(frozen=True)
class Scenario:
    """A way to play and perhaps to land; what follows is the same for all."""

    name: str
    about: str
    perform: Callable[[Run], SimulationResult]
    workers: tuple[str, ...] = (COMBAT, META, PODIUM)
    """Those that run after it, on one Spark; `perform` has run the others."""
    players: int = 10
    games: int = 100
    malformed: float = 0.0
    nodes: int = 1


def run_scenario(
    scenario: Scenario,
    folder: Path,
    jar_folder: Path,
    step: Step,
    *,
    players: int | None = None,
    games: int | None = None,
    seed: int = 1,
    sink: SinkKind = "delta",
) -> Outcome:
    """Perform a scenario in an empty folder, and compare everything that came out with what went in."""
    began = time.monotonic()
    chosen = Games(
        players=players or scenario.players, games=games or scenario.games, seed=seed, malformed=scenario.malformed
    )
    with open_arena(folder, jar_folder, step, nodes=scenario.nodes) as arena:
        arena.land_in(sink)
        run = Run(arena, chosen)
        played = scenario.perform(run)
        with one_spark(arena):
            run_workers(arena, scenario.workers)
        outcome = compare(scenario.name, run, played)
        step("stopping everything", 0, 0)
    return outcome.model_copy(update={"seconds": round(time.monotonic() - began, 1)})


def compare(name: str, run: Run, played: SimulationResult) -> Outcome:
    """Read every sink, table and topic afresh, and let the judge compare."""
    arena = run.arena
    arena.step("comparing with the truth", 0, 0)
    sent, letters, truth = arena.sent(), arena.letters(), read_truth(arena.truth)
    differences = [*run.unmet, *judge_sending(sent, events=played.events, malformed=played.malformed)]
    accounts = []
    for sink, read in arena.sinks.items():
        rows = list(read())
        differences += judge_landing(sink, sent, rows, letters)
        left = len(sent) - len(rows) - len(letters)
        accounts.append(SinkAccount(sink=sink, sent=len(sent), landed=len(rows), dead=len(letters), difference=left))
    reasons = selection.reasons(selection.select(arena.connection, Filter(pipeline=COMBAT)))
    differences += judge_reasons({each.error: each.letters for each in reasons}, malformed=played.malformed)
    podium = arena.rows(PODIUM)
    differences += judge_podium(podium, truth)
    differences += judge_meta(arena.rows(META), truth)
    return Outcome(
        scenario=name,
        players=run.games.players,
        games=played.games,
        seed=run.games.seed,
        events=played.events,
        malformed=played.malformed,
        sinks=accounts,
        lag=arena.lag(),
        podium=len(podium),
        truth=len(truth),
        facts=run.facts,
        reasons=reasons,
        differences=differences,
        seconds=0.0,
    )
