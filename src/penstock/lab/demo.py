"""The demo: games played live into a throwaway Kafka while pipelines land them, a burst, and the truth to compare."""

import datetime
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, Field

from penstock.clock import clock
from penstock.kafka import topics
from penstock.kafka.producer import Producer
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.scenarios.arena import COMBAT, META, PODIUM, Arena, Step, open_arena
from penstock.lab.scenarios.judge import Difference, judge_metrics
from penstock.lab.scenarios.live_workers import live_workers
from penstock.lab.scenarios.local_workers import one_spark, run_file, run_workers
from penstock.lab.scenarios.play import Games, play_live
from penstock.lab.scenarios.scenario import Outcome, Run, compare
from penstock.lab.scenarios.sinks import json_rows
from penstock.lab.simulator import events
from penstock.lab.simulator.simulation import SimulationOptions, SimulationResult, simulate
from penstock.lab.simulator.truth import read_truth
from penstock.lineage import pipeline_file
from penstock.lineage.questions import of_store
from penstock.lineage.shapes.lineage import Lineage
from penstock.lineage.shapes.parameters import DatasetLineageQuery, DatasetsQuery
from penstock.lineage.store.address import StoreAddress, default_path

METRICS, FLOW, RAW, BURST = "game_metrics", "message_flow", "raw", "burst"
_LIVE = (COMBAT, FLOW)
_AFTERWARDS = (META, PODIUM, METRICS, RAW)
MALFORMED = 0.01
THINK_S = 0.05
"""How long bots think before they act: the games last long enough to see batches come."""
_BURST_GAMES = 2_000
_BURST_PLAYERS = 100
_SHOWN = 5
_P50, _P99 = 0.5, 0.99
_DEPTH = 4


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
    events: int = Field(description="Events that reached the broker after the first batch had landed.")
    p50_ms: int = Field(description="Half of them took no longer.")
    p99_ms: int = Field(description="All but one in a hundred took no longer.")


class Live(BaseModel, frozen=True):
    """The games, landed while they were played."""

    records: int = Field(description="Records that the games sent, malformed ones too.")
    seconds: float = Field(description="How long the games took.")
    batches: int = Field(description="Batches in which the combat worker landed them.")


class Burst(BaseModel, frozen=True):
    """Many events at once, landed by the same worker on a warm Spark."""

    records: int = Field(description="Records sent, all acknowledged.")
    rows: int = Field(description="Rows that landed.")
    sent_s: float = Field(description="Seconds to play and send them.")
    landed_s: float = Field(description="Seconds from the start of the pipeline to its end, with all of them landed.")

    @property
    def landed_per_s(self) -> int:
        """Rows landed a second."""
        return round(self.rows / self.landed_s)


class DemoOutcome(BaseModel, frozen=True):
    """The demo's result."""

    podium: list[PodiumRow] = Field(description="The best players, most games won first.")
    tables: list[TableCount] = Field(description="What each worker left.")
    delays: list[Delay] = Field(description="How long events were on their way.")
    live: Live = Field(description="The games.")
    burst: Burst = Field(description="The burst after them.")
    lineage: Lineage = Field(description="Where the podium comes from, as the pipelines themselves have reported it.")
    compared: Outcome = Field(description="What was sent, landed and found different.")


def run(home: Path, jar_folder: Path, games: Games, step: Step) -> DemoOutcome:
    """Play and land at the same time, land a burst, compare; everything that was started is stopped."""
    began = time.monotonic()
    with open_arena(home, jar_folder, step) as arena, one_spark(arena):
        arena.report_lineage()
        with live_workers(arena, _LIVE) as done:
            played = play_live(arena, games)
        burst = _land_burst(arena, games.seed)
        run_workers(arena, _AFTERWARDS)
        compared = compare("demo", Run(arena, games), played)
        tables = [TableCount(worker=name, rows=_count(arena, name)) for name in (*_LIVE, *_AFTERWARDS)]
        differences = [*compared.differences, *_judge_others(arena, played, tables, burst)]
        outcome = DemoOutcome(
            podium=_best(arena.rows(PODIUM)),
            tables=tables,
            delays=_delays(arena.table(FLOW)),
            live=Live(records=played.records, seconds=round(played.seconds, 1), batches=done[COMBAT].batches),
            burst=burst,
            lineage=_lineage_of_podium(arena),
            compared=compared,
        )
        step("stopping everything", 0, 0)
    whole = compared.model_copy(update={"seconds": round(time.monotonic() - began, 1), "differences": differences})
    return outcome.model_copy(update={"compared": whole})


def _land_burst(arena: Arena, seed: int) -> Burst:
    """Play many games at once into a topic of their own, and let the combat worker land them."""
    topics.create(arena.admin, BURST, TopicSpec(partitions=events.PARTITIONS))
    truth = arena.folder / f"{BURST}.jsonl"
    options = SimulationOptions(players=_BURST_PLAYERS, games=_BURST_GAMES, seed=seed, speed="max", truth=truth)
    began = time.monotonic()
    with Producer(arena.connection) as producer:
        sent = simulate(
            options,
            lambda records: producer.send_many(BURST, records),
            show=lambda done, total: arena.step("a burst of games", done, total),
        )
    acknowledged = time.monotonic()
    arena.step("landing the burst", 0, 0)
    sinks = [{"type": "delta", "path": f"tables/{BURST}"}]
    file = arena.worker(COMBAT, name=BURST, source={"topics": [BURST]}, sinks=sinks)
    run_file(arena, file.rename(file.with_stem(BURST)))
    landed = time.monotonic()
    return Burst(
        records=sent.records,
        rows=len(arena.rows(BURST)),
        sent_s=round(acknowledged - began, 2),
        landed_s=round(landed - acknowledged, 2),
    )


def _lineage_of_podium(arena: Arena) -> Lineage:
    """Let the shipped pipeline take in what the others have reported, and ask its store."""
    arena.step("lineage", 0, 0)
    address = StoreAddress(store=str(default_path(arena.folder)))
    run_file(arena, pipeline_file.write(arena.folder, address, topics=[], pattern=None, batch={}))
    since = clock().now() - datetime.timedelta(days=1)
    with of_store(address) as store:
        [podium] = store.datasets(DatasetsQuery(search_query=PODIUM)).items
        return store.lineage(
            DatasetLineageQuery(
                start_node_id=int(podium.id), granularity="JOB", direction="UPSTREAM", depth=_DEPTH, since=since
            )
        )


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


def _judge_others(arena: Arena, played: SimulationResult, tables: list[TableCount], burst: Burst) -> list[Difference]:
    """Compare what only the demo has: every record is raw, every event has flowed, every hero adds up, the burst."""
    differences = judge_metrics(arena.rows(METRICS), read_truth(arena.truth))
    counts = {BURST: burst.rows, **{each.worker: each.rows for each in tables}}
    for name, right in ((RAW, played.records), (FLOW, played.events), (BURST, burst.records)):
        if counts[name] != right:
            what = f"{right} rows are due"
            differences.append(Difference(where=name, what=what, count=1, examples=[f"there are {counts[name]}"]))
    return differences


def _delays(table: Path) -> list[Delay]:
    """Measure each event from its log call to the broker, and from there to the commit that made its row readable.

    Events of the first batch had to wait for Spark to get warm, and are left out: a pipeline is started once.
    """
    commits = _commits(table)
    files = [pq.read_table(table / path, columns=["at", "broker_at"]) for path in commits]
    rows = pa.concat_tables(
        each.append_column("landed_ms", pa.array([at_ms] * each.num_rows, pa.int64()))
        for each, at_ms in zip(files, commits.values(), strict=True)
    )
    logged_ms, broker_ms = (
        pc.cast(pc.cast(rows.column(name), pa.timestamp("ms"), safe=False), pa.int64()) for name in ("at", "broker_at")
    )
    landed_ms = rows.column("landed_ms")
    is_later = pc.greater(broker_ms, min(commits.values(), default=0))
    ways = {
        "log to broker": pc.subtract(broker_ms, logged_ms),
        "broker to table": pc.subtract(landed_ms, broker_ms),
    }
    found = []
    for way, delays in ways.items():
        counted = delays.filter(is_later) if pc.any(is_later).as_py() else delays
        p50, p99 = pc.quantile(counted, q=[_P50, _P99], interpolation="nearest").to_pylist()
        found.append(Delay(way=way, events=len(counted), p50_ms=p50, p99_ms=p99))
    return found


def _commits(table: Path) -> dict[str, int]:
    """Return when each file of a Delta table was committed, in milliseconds since 1970, as the table's log has it."""
    found: dict[str, int] = {}
    for log in sorted((table / "_delta_log").glob("*.json")):
        actions = [orjson.loads(line) for line in log.read_bytes().splitlines()]
        at_ms = next(each["commitInfo"]["timestamp"] for each in actions if "commitInfo" in each)
        found |= {unquote(each["add"]["path"]): at_ms for each in actions if "add" in each}
    return found
