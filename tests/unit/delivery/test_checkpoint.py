import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from penstock.delivery.checkpoint import Checkpoint, Committed, Move
from penstock.delivery.durable import write_json, write_versioned
from penstock.errors import CheckpointLost, Conflict
from penstock.record.positions import OffsetRange, SourcePartition

TP, OTHER = (SourcePartition("orders", "id-1", number) for number in range(2))
COMMITTED = Committed(
    7,
    {TP: 0},
    {"delta": {TP: 42}, "dead": {}},
    {TP: 3},
    ran=("delta", "dead"),
    targets={"delta": "folder /orders"},
    moves={"delta": Move(("former",), {TP: 42})},
)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "combat" / "checkpoint", "combat")


def test_nothing_is_there_before_it_is_made(checkpoint: Checkpoint) -> None:
    assert not checkpoint.exists


def test_what_was_committed_is_loaded_by_the_next_driver(checkpoint: Checkpoint) -> None:
    checkpoint.create(Committed(0, {TP: 0}))
    checkpoint.plan(7, [OffsetRange(TP, 0, 42)])
    checkpoint.commit(COMMITTED)

    again = Checkpoint(checkpoint.folder, "combat")

    assert again.exists
    assert COMMITTED == again.load()


def test_a_plan_alone_changes_nothing_of_what_was_committed(checkpoint: Checkpoint) -> None:
    checkpoint.create(COMMITTED)

    checkpoint.plan(8, [OffsetRange(TP, 42, 50)])

    assert COMMITTED == checkpoint.load()
    assert {"format": 1, "batch": 8, "offset_ranges": [["orders", "id-1", 0, 42, 50]]} == orjson.loads(
        (checkpoint.folder / "planned.json").read_bytes()
    )


def test_only_partitions_of_a_batch_that_was_left_unfinished_are_unsettled(checkpoint: Checkpoint) -> None:
    checkpoint.create(COMMITTED)
    fresh = checkpoint.settled(COMMITTED, [TP, OTHER])
    checkpoint.plan(8, [OffsetRange(TP, 42, 50)])
    planned = checkpoint.settled(COMMITTED, [TP, OTHER])
    done = checkpoint.settled(Committed(8, {TP: 0}), [TP, OTHER])

    assert {TP, OTHER} == fresh == done
    assert {OTHER} == planned


@pytest.mark.parametrize("name", ["metadata.json", "committed.json"])
def test_a_file_that_is_missing_loses_the_checkpoint(checkpoint: Checkpoint, name: str) -> None:
    checkpoint.create(COMMITTED)
    checkpoint.plan(8, [])
    (checkpoint.folder / name).unlink()

    with pytest.raises(CheckpointLost) as caught:
        checkpoint.load()

    assert checkpoint.exists
    assert (
        f"the checkpoint of pipeline 'combat' is lost: in {checkpoint.folder}, {name} is missing" == caught.value.what
    )
    assert "Rebuild it from them with: penstock pipeline rebuild combat" == caught.value.fix


def test_a_driver_that_dies_while_it_makes_the_checkpoint_leaves_a_pipeline_that_never_began(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die_at_the_second_file(path: Path, version: int, data: Any) -> None:
        if any(checkpoint.folder.glob("*.json")):
            raise KeyboardInterrupt
        write_versioned(path, version, data)

    monkeypatch.setattr("penstock.delivery.checkpoint.write_versioned", die_at_the_second_file)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.create(COMMITTED)

    assert not checkpoint.exists


def test_a_plan_without_the_rest_is_a_lost_checkpoint_and_not_a_new_pipeline(checkpoint: Checkpoint) -> None:
    checkpoint.plan(1, [])

    assert checkpoint.exists
    with pytest.raises(CheckpointLost):
        checkpoint.load()


@pytest.mark.parametrize("name", ["metadata.json", "committed.json"])
@pytest.mark.parametrize(
    "content", [b"", b"{", b"null", b"[]", b"7", b"\xff", b"\x00" * 100, b'{"batch": 7', b'{"format": 1}']
)
def test_a_damaged_file_loses_the_checkpoint(checkpoint: Checkpoint, name: str, content: bytes) -> None:
    checkpoint.create(COMMITTED)
    (checkpoint.folder / name).write_bytes(content)

    with pytest.raises(CheckpointLost):
        checkpoint.load()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"batch": "x"}, id="a batch that is not a number"),
        pytest.param({"batch": None}, id="no batch"),
        pytest.param({"batch": -1}, id="a batch below zero"),
        pytest.param({"starts": None}, id="no starts"),
        pytest.param({"starts": [["orders", "id-1", 0]]}, id="a start without an offset"),
        pytest.param({"starts": [["orders", "id-1", 0, "5"]]}, id="an offset that is not a number"),
        pytest.param({"starts": [["orders", "id-1", 0, None]]}, id="an offset that is null"),
        pytest.param({"starts": [["orders", "id-1", 0, -5]]}, id="an offset below zero"),
        pytest.param({"starts": [["orders", "id-1", "0", 5]]}, id="a partition that is not a number"),
        pytest.param({"sinks": []}, id="sinks without names"),
        pytest.param({"sinks": {"delta": 5}}, id="a sink without places"),
        pytest.param({"sinks": {"delta": [["orders", "id-1", 0, 1.5]]}}, id="half an offset"),
    ],
)
def test_content_that_makes_no_sense_loses_the_checkpoint(checkpoint: Checkpoint, change: dict[str, Any]) -> None:
    checkpoint.create(COMMITTED)
    path = checkpoint.folder / "committed.json"
    path.write_bytes(orjson.dumps(orjson.loads(path.read_bytes()) | change))

    with pytest.raises(CheckpointLost):
        checkpoint.load()


def test_the_checkpoint_of_another_pipeline_is_not_used(checkpoint: Checkpoint) -> None:
    Checkpoint(checkpoint.folder, "other").create(COMMITTED)

    with pytest.raises(CheckpointLost, match=r"metadata\.json belongs to pipeline 'other'"):
        checkpoint.load()


HOLD = """
import sys
from pathlib import Path
from penstock.delivery.checkpoint import Checkpoint
with Checkpoint(Path(sys.argv[1]), "combat").locked():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_driver_is_turned_away_while_the_first_one_lives(checkpoint: Checkpoint) -> None:
    command = [sys.executable, "-c", HOLD, str(checkpoint.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert b"held\n" == first.stdout.readline()

        with pytest.raises(Conflict) as caught, checkpoint.locked():
            pass
        first.kill()
        first.wait()

        with checkpoint.locked():
            pass
    assert "pipeline 'combat' is running already" == caught.value.what
    assert "This second driver has touched nothing" == caught.value.safe


def test_the_lock_is_let_go_after_a_failure_and_can_be_had_again(checkpoint: Checkpoint) -> None:
    with pytest.raises(ZeroDivisionError), checkpoint.locked():
        raise ZeroDivisionError

    with checkpoint.locked(), pytest.raises(Conflict), checkpoint.locked():
        pass


def test_pipelines_do_not_lock_each_other_out(tmp_path: Path) -> None:
    one, other = Checkpoint(tmp_path / "a" / "checkpoint", "a"), Checkpoint(tmp_path / "b" / "checkpoint", "b")

    with one.locked(), other.locked():
        pass


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "file.json"

    write_json(path, {"old": "x" * 10_000})
    write_json(path, {"new": 1})

    assert {"new": 1} == orjson.loads(path.read_bytes())
    assert [path] == list(path.parent.iterdir())


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_json(path, {"old": 1})

    with pytest.raises(TypeError):
        write_json(path, {"new": object()})

    assert {"old": 1} == orjson.loads(path.read_bytes())


def test_a_file_is_on_the_disk_before_its_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.json"
    done: list[tuple[bool, bool]] = []
    really = os.fsync

    def watched(descriptor: int) -> None:
        done.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), path.exists()))
        really(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    write_json(path, {})

    assert [(False, False), (True, True)] == done


WRITTEN_NOW = {"a": "topic one", "b": "topic two"}
WRITTEN = {**WRITTEN_NOW, "old": "topic one"}


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        pytest.param(WRITTEN_NOW, {}, id="as before"),
        pytest.param({"c": "topic one", "b": "topic two"}, {"c": ["a"]}, id="renamed"),
        pytest.param({"a": "topic two", "b": "topic one"}, {"a": ["b"], "b": ["a"]}, id="exchanged"),
        pytest.param({"a": "topic two", "c": "topic one"}, {"a": ["b"], "c": ["a"]}, id="in a row"),
        pytest.param({"a": "topic two"}, {"a": ["b"]}, id="renamed to one that was taken out"),
        pytest.param({"a": "topic one", "c": "topic three"}, {}, id="taken out, and another put in"),
        pytest.param({"a": "topic three", "b": "topic two"}, {}, id="another target"),
        pytest.param({**WRITTEN_NOW, "c": "topic one"}, {"c": ["old"]}, id="taken out long before"),
        pytest.param({"c": "topic one", "d": "topic one"}, {"c": ["a"], "d": ["a"]}, id="divided"),
    ],
)
def test_a_sink_that_writes_where_one_wrote_that_does_not_any_more_is_that_one_by_another_name(
    targets: dict[str, str], expected: dict[str, list[str]]
) -> None:
    committed = Committed(7, {TP: 0}, {each: {TP: 42} for each in WRITTEN}, ran=("a", "b"), targets=WRITTEN)

    assert expected == committed.formers(targets)


def test_a_sink_that_is_renamed_has_what_was_on_record_of_it_and_a_name_that_means_another_target_is_missed() -> None:
    sinks, begins = {"a": {TP: 42}, "b": {TP: 20}}, {"a": {OTHER: 3}}
    targets = {"a": "topic one", "b": "topic two"}
    committed = Committed(
        7, {TP: 0, OTHER: 0}, sinks, begins=begins, target_ids={"a": "id"}, ran=("a", "b", "dead"), targets=targets
    )
    move = Move(("a",), {TP: 43})

    renamed = committed.renamed({"c": move}, {"c": "topic one", "b": "topic two"}, {"c", "b"}, {})
    and_used = committed.renamed({"c": move}, {"c": "topic one", "a": "topic three"}, {"c", "a"}, {})

    assert {"c": {TP: 43}, "b": {TP: 20}} == renamed.sinks
    assert ({"c": {OTHER: 3}}, {"c": "id"}, ("c", "b", "dead")) == (renamed.begins, renamed.target_ids, renamed.ran)
    assert ({"c": "topic one", "b": "topic two"}, {"c": move}) == (renamed.targets, renamed.moves)
    assert {"a": {TP: 42}, "b": {TP: 20}, "c": {TP: 43}} == and_used.sinks
    assert {"b": "topic two", "c": "topic one"} == and_used.targets


def test_names_that_sinks_had_say_of_letters_whose_they_are_as_far_as_records_were_judged_by_then() -> None:
    targets = {"a": "topic one", "b": "topic two"}
    committed = Committed(7, {TP: 0}, {"a": {TP: 42}, "b": {TP: 20}}, ran=("a", "b", "dead"), targets=targets)
    swapped = {"a": "topic two", "b": "topic one"}
    moves = {"a": Move(("b",), {TP: 20}), "b": Move(("a",), {TP: 42})}

    once = committed.renamed(moves, swapped, {"a", "b"}, {TP: 50})
    back = once.renamed(moves, targets, {"a", "b"}, {TP: 70})
    twice = once.renamed({"c": Move(("b",), {TP: 60})}, {"a": "topic two", "c": "topic one"}, {"a", "c"}, {TP: 70})

    assert [("b", "a"), ("a", "b")] == [(once.called_now("a", TP, at), once.called_now("b", TP, at)) for at in (49, 50)]
    assert ["c", "a", "c", "b"] == [
        twice.called_now(each, TP, at) for each, at in [("a", 49), ("a", 50), ("b", 69), ("b", 70)]
    ]
    assert ["a", "b", "b", "a"] == [
        back.called_now(each, TP, at) for each, at in [("a", 49), ("b", 49), ("a", 69), ("b", 69)]
    ]
    assert None is twice.called_now(None, TP, 0)


def test_letters_of_a_sink_that_was_taken_out_are_none_of_the_one_that_has_its_name_since(
    checkpoint: Checkpoint,
) -> None:
    targets = {"a": "topic one", "b": "topic two"}
    committed = Committed(7, {TP: 0}, {"a": {TP: 42}, "b": {TP: 20}}, ran=("a", "b", "dead"), targets=targets)

    once = committed.renamed({"a": Move(("b",), {TP: 20})}, {"a": "topic two"}, {"a"}, {TP: 50})
    checkpoint.create(once)
    twice = checkpoint.load().renamed({"c": Move(("a",), {TP: 60})}, {"c": "topic two"}, {"c"}, {TP: 70})

    assert ["a~1", "a"] == [once.called_now("a", TP, at) for at in (49, 50)]
    assert ["a~1", "c", "a"] == [twice.called_now("a", TP, at) for at in (49, 50, 70)]
    assert ["a", "c"] == [each.called_now("b", TP, 49) for each in (once, twice)]


def test_a_sink_whose_name_another_one_got_is_known_by_its_target_unless_it_gets_the_name_back() -> None:
    targets = {"a": "topic one", "b": "topic two"}
    committed = Committed(7, {TP: 0}, {"a": {TP: 42}, "b": {TP: 20}}, ran=("a", "b", "dead"), targets=targets)

    ousted = committed.renamed({"a": Move(("b",), {TP: 20})}, {"a": "topic two"}, {"a"}, {TP: 50})
    again = replace(ousted, targets={**ousted.targets, "a": "topic one", "c": "topic two"})

    assert {"c": ["a~1"]} == ousted.formers({"a": "topic two", "c": "topic one"})
    assert {"c": ["a"]} == ousted.formers({"a": "topic one", "c": "topic two"})
    assert {"d": ["a"]} == again.formers({"d": "topic one", "c": "topic two"})
