"""Driver, Connect worker, broker and database are killed; the mirrored table equals the source row by row."""

import random
from collections.abc import Callable
from functools import partial
from operator import le

import psutil
import pytest
from deltalake import DeltaTable

from penstock.config.local_services import ServiceAddress, folder_of
from penstock.connect import restarts, snapshots
from penstock.connect.cdc import Capture, Captures
from penstock.connect.client import ConnectClient
from penstock.connect.postgres import slot_of
from penstock.kafka.positions import bounds
from penstock.kafka.reader import read_all
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.services import status

from support.pipelines import Lab, dying
from support.postgres_driver import ask
from support.shop import KEY, NAMES, SCHEMA, grow, mirrored_rows, play, replayed_rows, shop, source_rows
from support.waiting import eventually, until


class Mirror:
    """A table that is captured, and its mirrors in Delta and PostgreSQL; everything on the way can be killed."""

    def __init__(
        self,
        name: str,
        seed: int,
        lab: Lab,
        connect: ServiceAddress,
        postgres: RunningPostgres,
        max_events: int = 50,
    ) -> None:
        self.lab = lab
        self.postgres = postgres
        self.dice = random.Random(seed)
        self.columns = list(NAMES)
        self.source = shop(postgres, identity="FULL" if seed % 2 else "DEFAULT")
        self.target = postgres.database("mirror")
        self.captures = Captures(lab.kafka.home, ConnectClient(connect))
        self.capture = Capture(name=name, server=self.source, tables=["public.orders"])
        self.topic = self.capture.topic("public.orders")
        step = {"schema": SCHEMA, "new_columns": "add"}
        sinks = [
            {"type": "delta", "path": str(lab.table), "key": KEY},
            {"type": "postgres", "server": self.target, "table": "mirror", "mode": "upsert", "key": KEY},
        ]
        parts = {"decode": {"type": "raw"}, "batch": {"max_events": max_events}}
        self.state = lab.spec(self.topic, name=name, steps=[{"cdc": "state", **step}], sinks=sinks, **parts)
        self.history = lab.spec(
            self.topic,
            name=f"{name}-history",
            steps=[{"cdc": "history", **step}],
            sinks=[{"type": "delta", "path": str(lab.folder / "history")}],
            **parts,
        )

    def change(self) -> None:
        with self.source.connect() as connection:
            play(connection, self.dice, 60)

    def grow(self, name: str) -> None:
        grow(self.source, name, "numeric(8,2)", "12.30")
        self.columns.append(name)

    def is_same(self) -> bool:
        self.lab.run(self.state)
        expected = source_rows(self.source, self.columns)
        in_delta = mirrored_rows(DeltaTable(str(self.lab.table)), self.columns)
        return expected == in_delta == source_rows(self.target, self.columns, "mirror")

    def wait(self) -> None:
        """Wait until the mirrors are the same; if they do not become so, say how everybody on the way is."""
        try:
            until(self.is_same, timeout_s=240)
        except AssertionError:
            connector = self.captures.client.connector(self.capture.name)
            expected = source_rows(self.source, self.columns)
            in_delta = mirrored_rows(DeltaTable(str(self.lab.table)), self.columns)
            in_postgres = source_rows(self.target, self.columns, "mirror")
            with self.source.connect() as connection:
                slot = slot_of(connection, self.capture.slot)
            pytest.fail(
                f"{connector} {slot} {restarts.load(folder_of(self.lab.kafka.home, 'connect'))}"
                f" source {len(expected)} rows, delta lacks {len({*expected} - {*in_delta})} and has"
                f" {len({*in_delta} - {*expected})} more, postgres {len({*expected} - {*in_postgres})} and"
                f" {len({*in_postgres} - {*expected})}; {self.lab.letters(self.topic)}"
            )

    def is_history_the_same(self) -> bool:
        self.lab.run(self.history)
        history = DeltaTable(str(self.lab.folder / "history"))
        return source_rows(self.source, self.columns) == replayed_rows(history, self.columns)

    def kill_worker(self) -> None:
        psutil.Process(status.load(folder_of(self.lab.kafka.home, "connect")).pids["worker"]).kill()

    def kill_broker(self) -> None:
        process = self.lab.kafka.cluster.node(1).process()
        assert process is not None
        process.kill()
        process.wait(60)
        self.lab.kafka.start_again()

    def kill_database(self) -> None:
        self.postgres.kill()
        self.postgres.start()

    def kill_driver(self) -> None:
        there = len(read_all(self.lab.connection, self.topic))
        self.change()
        until(lambda: len(read_all(self.lab.connection, self.topic)) > there, timeout_s=120)
        with dying(f"in_commit:{self.dice.choice(['delta', 'postgres'])}"):
            self.lab.run(self.state)


@pytest.mark.soak
def test_the_mirror_equals_the_source_although_everything_on_the_way_was_killed(
    lab: Lab, connect: ServiceAddress, logical_postgres: RunningPostgres
) -> None:
    mirror = Mirror("killed", 12, lab, connect, logical_postgres)
    mirror.change()
    mirror.captures.add(mirror.capture, lab.kafka.admin())

    mirror.kill_driver()
    mirror.kill_worker()
    mirror.kill_database()
    mirror.grow("price")
    mirror.kill_broker()
    mirror.change()
    mirror.wait()

    until(mirror.is_history_the_same)
    assert [] == lab.letters(mirror.topic)
    mirror.captures.remove("killed")


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(3))
def test_the_mirror_equals_the_source_whoever_is_killed_in_turn(
    seed: int, lab: Lab, connect: ServiceAddress, logical_postgres: RunningPostgres
) -> None:
    name = f"turn{seed}"
    mirror = Mirror(name, seed, lab, connect, logical_postgres)
    mirror.captures.add(mirror.capture, lab.kafka.admin())
    kills: list[Callable[[], None]] = [
        *(mirror.kill_worker, mirror.kill_database, mirror.kill_broker, mirror.kill_driver),
    ]
    mirror.dice.shuffle(kills)

    for number, kill in enumerate([*kills, *kills]):
        mirror.change()
        kill()
        mirror.change()
        if number % 3 == 0:
            mirror.grow(f"added_{number}")
        mirror.wait()

    until(mirror.is_history_the_same)
    assert [] == lab.letters(mirror.topic)
    mirror.captures.remove(name)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2))
def test_the_mirror_equals_the_source_whoever_is_killed_in_the_middle_of_the_snapshot(
    seed: int, lab: Lab, connect: ServiceAddress, logical_postgres: RunningPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"snapshot{seed}"
    mirror = Mirror(name, seed, lab, connect, logical_postgres, max_events=50_000)

    def fill(number: int) -> None:
        """Let every snapshot take a while, also after a truncate of the table."""
        rows = "SELECT id, 'x', repeat('y', 300), id FROM generate_series(%s::int, %s::int) AS id"
        ask(mirror.source, f"INSERT INTO orders (id, part, doc, n) {rows}", number * 100_000, number * 100_000 + 30_000)

    fill(1)
    monkeypatch.setattr(Captures, "_wait_until_read", lambda *_given: None)
    mirror.captures.add(mirror.capture, lab.kafka.admin())
    kills = [mirror.kill_worker, mirror.kill_database, mirror.kill_broker]
    mirror.dice.shuffle(kills)

    def written() -> int:
        return bounds(lab.kafka.admin(), [(mirror.topic, 0)])[mirror.topic, 0][1]

    for remainder, kill in enumerate(kills):
        eventually(written, partial(le, written() + 500), timeout_s=600)
        kill()
        ask(mirror.source, "DELETE FROM orders WHERE id %% 7 = %s", remainder)
        ask(mirror.source, "UPDATE orders SET part = 'moved' WHERE id %% 11 = %s AND part = 'x'", remainder)
        mirror.change()
        fill(remainder + 2)

    until(lambda: snapshots.state(lab.kafka.admin(), name) == "complete", timeout_s=600)
    mirror.wait()
    until(mirror.is_history_the_same)
    assert [] == lab.letters(mirror.topic)
    mirror.captures.remove(name)
