"""The scenario from an empty folder to its outcome: servers, the day, and the comparison with the truth."""

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from penstock.config.project import FILE_NAME
from penstock.errors import NotFound
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.reader import Reader
from penstock.kafka.topic_spec import TopicSpec
from penstock.lab.bench.throwaway import running
from penstock.lab.bench.throwaway_gateway import gateway
from penstock.lab.bench.throwaway_kafka import Step, one_node
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.lab.scenarios.judge import Difference
from penstock.lab.scenarios.midnight import truth
from penstock.lab.scenarios.midnight.day import events_of_day
from penstock.lab.scenarios.midnight.night import Night
from penstock.lab.scenarios.midnight.senders import SendingResult
from penstock.lab.scenarios.verdict import Verdict
from penstock.lineage import pipeline_file
from penstock.lineage.gateway.options import LINEAGE_TOPIC
from penstock.lineage.store.address import StoreAddress, default_path
from penstock.lineage.store.database import migrate
from penstock.operate.driver import MASTER

EVENTS = 20_000
StoreKind = Literal["sqlite", "postgres"]
_PARTITIONS = 4
_EVENTS_A_SECOND = 200
_SHORTEST_S, _LONGEST_S = 15.0, 120.0
_SHOWN = 3
Ask = Callable[[str], Iterable[Sequence[Any]]]


class Account(BaseModel, frozen=True):
    """One kind of thing: what the events say, and what the store holds."""

    what: str = Field(description="The kind of thing.")
    truth: int = Field(description="How many of them the events tell of.")
    stored: int = Field(description="How many the store has.")
    difference: int = Field(description="Rows that are on one side only.")


class MidnightOutcome(Verdict, frozen=True):
    """How it ended: right if no sender waited or was refused, the backlog drained, and the store is the truth."""

    ways: list[SendingResult] = Field(description="What it was like to send.")
    accounts: list[Account] = Field(description="The store beside the truth.")


def run_midnight(
    folder: Path,
    jar_folder: Path,
    step: Step,
    *,
    events: int = EVENTS,
    seed: int = 1,
    store: StoreKind = "sqlite",
    workers: int | None = None,
) -> MidnightOutcome:
    """Perform it in an empty folder, and compare the topic and the store with what was sent."""
    began = time.monotonic()
    step("making up a day", 0, 0)
    day = events_of_day(events, seed)
    values = Counter(each.value for each in day)
    with ExitStack() as stack:
        cluster = stack.enter_context(one_node(folder, jar_folder, step))
        # Drivers of other processes look for the nearest project file: it must not be the user's.
        (folder / FILE_NAME).write_text("cluster: {type: local}\n", encoding="utf-8")
        connection = cluster.connection()
        topics.create(Admin(connection), LINEAGE_TOPIC, TopicSpec(partitions=_PARTITIONS))
        address, ask = _make_store(store, folder, stack)
        file = pipeline_file.write(folder, address, topics=[LINEAGE_TOPIC], pattern=None, batch={})
        step("starting the gateway", 0, 0)
        url, _ = stack.enter_context(gateway(connection, folder))
        night = Night(folder, cluster, url, file, step, MASTER if workers is None else f"local[{workers},4]")
        ways = night.live_through(day, min(_LONGEST_S, max(_SHORTEST_S, len(day) / _EVENTS_A_SECOND)))
        step("comparing with the truth", 0, 0)
        accounts, differences = compare(truth.of_events(values), truth.of_store(ask))
        differences = [*night.unmet, *_judge_topic(values, connection), *differences]
        step("stopping everything", 0, 0)
    return MidnightOutcome(
        scenario="midnight",
        seed=seed,
        events=len(day),
        ways=ways,
        accounts=accounts,
        facts=night.facts,
        differences=differences,
        seconds=round(time.monotonic() - began, 1),
    )


def compare(expected: truth.Rows, found: truth.Rows) -> tuple[list[Account], list[Difference]]:
    """Return the account of each kind of thing, and what is on one side only."""
    accounts, differences = [], []
    for what, rows in expected.items():
        missing, invented = rows - found[what], found[what] - rows
        both = missing.total() + invented.total()
        accounts.append(Account(what=what, truth=rows.total(), stored=found[what].total(), difference=both))
        differences += _differences(f"stored {what}", missing, invented)
    return accounts, differences


def _judge_topic(values: Counter[bytes], connection: Connection) -> list[Difference]:
    """Compare the topic with what was sent; none of it may be a dead letter."""
    found = _differences("topic", values - (there := _records(connection, LINEAGE_TOPIC)), there - values)
    return [*found, *_differences("dead letters", Counter(), _records(connection, f"{LINEAGE_TOPIC}.dead"))]


def _records(connection: Connection, topic: str) -> Counter[bytes]:
    try:
        with Reader(connection, topic) as reader:
            return Counter(bytes(each.value() or b"") for each in reader)
    except NotFound:
        return Counter()


def _differences(where: str, missing: Counter[Any], invented: Counter[Any]) -> list[Difference]:
    return [
        Difference(
            where=where, what=what, count=rows.total(), examples=[str(each)[:200] for each in list(rows)[:_SHOWN]]
        )
        for what, rows in (("missing", missing), ("there without a reason, or once more", invented))
        if rows
    ]


def _make_store(kind: StoreKind, folder: Path, stack: ExitStack) -> tuple[StoreAddress, Ask]:
    """Make an empty store; return its address, and what answers a query, past Penstock."""
    if kind == "sqlite":
        path = default_path(folder)
        address = StoreAddress(store=str(path))
        migrate(address)
        database = stack.enter_context(closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)))
        return address, database.execute
    server = stack.enter_context(running(RunningPostgres))
    made = server.database("lineage")
    keys = {"password": f"file:{server.password_file}", "sslmode": "disable"}
    address = StoreAddress.model_validate(
        {"store": f"postgresql://{made.user}@{made.host}:{made.port}/{made.database}", **keys}
    )
    migrate(address)
    connection = stack.enter_context(closing(server.connect(made.database)))
    connection.execute("SET search_path TO lineage")
    connection.commit()
    return address, connection.execute
