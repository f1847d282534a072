"""What a scenario is, what it ends with, and performing one: play, land, compare."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field

from penstock.delivery import selection
from penstock.delivery.selection import Filter, Reason
from penstock.lab.scenarios.arena import COMBAT, META, PODIUM, Arena, Step, open_arena
from penstock.lab.scenarios.judge import (
    judge_landing,
    judge_meta,
    judge_podium,
    judge_reasons,
    judge_sending,
)
from penstock.lab.scenarios.local_workers import one_spark, run_workers
from penstock.lab.scenarios.play import Games
from penstock.lab.scenarios.sinks import SinkKind
from penstock.lab.scenarios.standings import Standing, best
from penstock.lab.scenarios.verdict import Notes, Verdict
from penstock.lab.simulator.simulation import SimulationResult
from penstock.lab.simulator.truth import read_truth


class SinkAccount(BaseModel, frozen=True):
    """One sink, read afresh."""

    sink: str = Field(description="The sink.")
    sent: int = Field(description="Records in the topic.")
    landed: int = Field(description="Rows in the sink.")
    dead: int = Field(description="Dead letters.")
    difference: int = Field(description="Sent, less landed and dead.")


class Outcome(Verdict, frozen=True):
    """How games ended: right if sent = landed + dead everywhere, and the workers' tables are the truth."""

    players: int = Field(description="Users who played.")
    games: int = Field(description="Games that ended.")
    malformed: int = Field(description="Malformed records that were sent among the events.")
    sinks: list[SinkAccount] = Field(description="The account of every sink.")
    lag: int = Field(description="What was left to land.")
    podium: int = Field(description="Rows of the podium.")
    truth: int = Field(description="Rows that it should have.")
    standings: list[Standing] = Field(
        default_factory=list, description="The ten best players, by the podium and in truth."
    )
    reasons: list[Reason] = Field(description="Dead letters by reason.")


@dataclass
class Run(Notes):
    """What a scenario is given, and where it reports what happened."""

    arena: Arena
    games: Games


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
    workers: int | None = None,
) -> Outcome:
    """Perform a scenario in an empty folder, and compare everything that came out with what went in."""
    began = time.monotonic()
    chosen = Games(
        players=players or scenario.players, games=games or scenario.games, seed=seed, malformed=scenario.malformed
    )
    with open_arena(folder, jar_folder, step, nodes=scenario.nodes) as arena:
        arena.land_in(sink)
        arena.workers = workers
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
        standings=best(podium, truth),
        facts=run.facts,
        reasons=reasons,
        differences=differences,
    )
