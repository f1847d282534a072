"""The demo: games played live into a throwaway Kafka, every worker on one Spark, all of it compared with the truth."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from pydantic import BaseModel, Field

from penstock.lab.scenarios.arena import COMBAT, META, PODIUM, Arena, Step, open_arena
from penstock.lab.scenarios.judge import Difference, judge_metrics
from penstock.lab.scenarios.local_workers import one_spark, run_workers
from penstock.lab.scenarios.play import Games, play_live
from penstock.lab.scenarios.scenario import Outcome, Run, compare
from penstock.lab.scenarios.sinks import json_rows
from penstock.lab.simulator.simulation import SimulationResult
from penstock.lab.simulator.truth import read_truth
from penstock.sinks.tables import open_table

METRICS, FLOW, RAW = "game_metrics", "message_flow", "raw"
_WORKERS = (COMBAT, META, PODIUM, METRICS, FLOW, RAW)
MALFORMED = 0.01
_SHOWN = 5
_P50, _P99 = 0.5, 0.99


class PodiumRow(BaseModel, frozen=True):
    """How a player came out of all games, added up from the podium."""

    user: str = Field(description="The player.")
    games: int = Field(description="Games played.")
    won: int = Field(description="Games won.")
    second: int = Field(description="Games in which the player fell last.")
    damage_dealt: int = Field(description="Health taken off others.")
    damage_received: int = Field(description="Health taken off the player.")


class TableCount(BaseModel, frozen=True):
    """What a worker left."""

    worker: str = Field(description="The worker.")
    rows: int = Field(description="Rows in its table, or lines in its files.")


class Delay(BaseModel, frozen=True):
    """How long events were on one part of their way."""

    way: str = Field(description="From where to where.")
    p50_ms: int = Field(description="Half of the events took no longer.")
    p99_ms: int = Field(description="All but one in a hundred took no longer.")


class DemoOutcome(BaseModel, frozen=True):
    """The demo's result."""

    podium: list[PodiumRow] = Field(description="The best players, most games won first.")
    tables: list[TableCount] = Field(description="What each worker left.")
    delays: list[Delay] = Field(description="How long events were on their way.")
    played_per_s: int = Field(description="Records a second, while the games were played.")
    landed_per_s: int = Field(description="Records a second into the combat table, with the work around it.")
    compared: Outcome = Field(description="What was sent, landed and found different.")


def run(home: Path, jar_folder: Path, games: Games, step: Step) -> DemoOutcome:
    """Play, land, compare; everything that was started is stopped."""
    began = time.monotonic()
    with open_arena(home, jar_folder, step) as arena:
        played = play_live(arena, games)
        with one_spark(arena):
            statuses = run_workers(arena, _WORKERS)
        compared = compare("demo", Run(arena, games), played)
        tables = [TableCount(worker=name, rows=_count(arena, name)) for name in _WORKERS]
        differences = [*compared.differences, *_judge_others(arena, played, tables)]
        outcome = DemoOutcome(
            podium=_best(arena.rows(PODIUM)),
            tables=tables,
            delays=_delays(arena),
            played_per_s=round(played.records / played.seconds),
            landed_per_s=statuses[COMBAT].events_per_s,
            compared=compared,
        )
        step("stopping everything", 0, 0)
    whole = compared.model_copy(update={"seconds": round(time.monotonic() - began, 1), "differences": differences})
    return outcome.model_copy(update={"compared": whole})


def _best(rows: list[dict[str, Any]]) -> list[PodiumRow]:
    totals: dict[str, Counter[str]] = {}
    for row in rows:
        total = totals.setdefault(row["user"], Counter())
        total.update(games=1, won=row["rank"] == 1, second=row["rank"] == 2)  # noqa: PLR2004 - the second place
        total.update(damage_dealt=row["damage_dealt"], damage_received=row["damage_received"])
    best = sorted(totals, key=lambda user: (-totals[user]["won"], -totals[user]["damage_dealt"], user))
    return [PodiumRow.model_validate({"user": user, **totals[user]}) for user in best[:_SHOWN]]


def _count(arena: Arena, name: str) -> int:
    if name == RAW:
        return sum(1 for _ in json_rows(arena.table(RAW)))
    return len(arena.rows(name))


def _judge_others(arena: Arena, played: SimulationResult, tables: list[TableCount]) -> list[Difference]:
    """Compare the workers that only the demo runs: every record is raw, every event has flowed, every hero adds up."""
    differences = judge_metrics(arena.rows(METRICS), read_truth(arena.truth))
    counts = {each.worker: each.rows for each in tables}
    for name, right in ((RAW, played.records), (FLOW, played.events)):
        if counts[name] != right:
            what = f"{right} rows are due"
            differences.append(Difference(where=name, what=what, count=1, examples=[f"there are {counts[name]}"]))
    return differences


def _delays(arena: Arena) -> list[Delay]:
    columns = {"log to broker": "log_to_broker_ms", "broker to table": "broker_to_table_ms"}
    table = open_table(arena.table(FLOW)).to_pyarrow_table(columns=list(columns.values()))
    found = []
    for way, column in columns.items():
        p50, p99 = pc.quantile(table.column(column), q=[_P50, _P99], interpolation="nearest").to_pylist()
        found.append(Delay(way=way, p50_ms=p50, p99_ms=p99))
    return found
