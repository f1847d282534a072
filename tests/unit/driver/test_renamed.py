"""Sinks by another name, over real Delta tables."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.delivery.checkpoint import Checkpoint, Committed, Move
from penstock.driver.renamed import continued
from penstock.errors import Conflict
from penstock.record.positions import Positions, SourcePartition
from penstock.sinks.delta import Delta, DeltaSink

A, B = (SourcePartition("orders", "id-1", number) for number in range(2))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "checkpoint", "p")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


@contextmanager
def opened(table: Path, name: str) -> Iterator[DeltaSink]:
    with closing(DeltaSink(Delta(path=table), name, "p")) as sink:
        sink.open(pa.schema([("id", pa.int64())]))
        yield sink


def stand(table: Path, name: str, positions: Positions) -> None:
    with opened(table, name) as sink:
        sink.go_on((), positions)


def go_on(checkpoint: Checkpoint, committed: Committed, table: Path, name: str) -> tuple[Committed, Positions | None]:
    """Return what the checkpoint says then, and where the sink stands."""
    with opened(table, name) as sink:
        after = continued(
            checkpoint,
            committed,
            {name: "folder table"},
            {name: sink},
            lambda _name, other: opened(table, other),
            lambda _asked: {A: 9},
        )
        return after, sink.positions([A, B])


def test_a_sink_stands_where_it_stood_by_its_former_name_and_that_is_on_record(
    checkpoint: Checkpoint, table: Path
) -> None:
    stand(table, "one", {A: 7, B: 3})
    stand(table, "two", {A: 2, B: 5})
    committed = Committed(3, {A: 0, B: 0}, {"one": {A: 6, B: 3}}, targets={"one": "folder table"}, ran=("one",))

    after, positions = go_on(checkpoint, committed, table, "two")

    # The table is further than the checkpoint at A; at B the name stands further than the former one ever did.
    assert {A: 7, B: 5} == positions
    expected = replace(committed, sinks={"two": {A: 7, B: 5}}, targets={"two": "folder table"}, ran=("two",))
    assert replace(expected, formerly={"two": {"one": {A: 9}}}) == after
    checkpoint.create(after)
    assert after == checkpoint.load()


def test_a_move_on_record_that_is_done_already_takes_no_sink_back(
    checkpoint: Checkpoint, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand(table, "one", {A: 7})
    committed = Committed(3, {A: 0}, {"one": {A: 7}}, targets={"one": "folder table"})
    seen: list[Committed] = []
    monkeypatch.setattr(checkpoint, "commit", seen.append)
    go_on(checkpoint, committed, table, "two")
    stand(table, "two", {A: 90})

    _, positions = go_on(checkpoint, seen[0], table, "two")

    assert {"two": Move(("one",), {A: 7})} == seen[0].moves
    assert {A: 90} == positions


def test_sinks_that_stood_apart_cannot_become_one(checkpoint: Checkpoint, table: Path) -> None:
    stand(table, "one", {A: 7})
    stand(table, "two", {A: 8})
    there = {"one": "folder table", "two": "folder table"}
    committed = Committed(3, {A: 0}, {"one": {A: 7}, "two": {A: 8}}, targets=there, ran=("one", "two"))

    with pytest.raises(Conflict, match="sink 'three' writes to where 'one', 'two' wrote"):
        go_on(checkpoint, committed, table, "three")
    stand(table, "one", {A: 8})

    assert {A: 8} == go_on(checkpoint, committed, table, "three")[1]
