"""Which sinks a replay must write to before it may settle anything."""

import time
from pathlib import Path

import pytest

from penstock.config import settings
from penstock.delivery.checkpoint import Checkpoint, Committed
from penstock.delivery.dead_letter import DeadLetter
from penstock.delivery.ledger import Replay
from penstock.delivery.selection import only_pipeline
from penstock.errors import BadInput
from penstock.operate import belonging
from penstock.operate.known_pipelines import paths_of
from penstock.operate.settling import left_out, require_sinks
from penstock.pipeline.spec import PipelineSpec
from penstock.record.positions import SourcePartition

AT = SourcePartition("orders", "some-id", 0)


def spec(folder: Path, *sinks: str) -> PipelineSpec:
    document = {
        "name": "orders",
        "source": {"type": "kafka", "topics": ["orders"]},
        "decode": {"type": "raw"},
        "sinks": [{"type": "delta", "name": name, "path": str(folder / name)} for name in sinks],
        "speed": "scheduled",
    }
    return PipelineSpec.model_validate(document)


def letter(failed_ms: int, sink: str | None = None) -> DeadLetter:
    return DeadLetter(
        dead_topic="orders.dead",
        dead_partition=0,
        dead_offset=0,
        pipeline="orders",
        stage="decode",
        error="Malformed",
        message="no JSON",
        sink=sink,
        sinks=["a", "b"],
        topic="orders",
        topic_id="some-id",
        partition=0,
        offset=0,
        source_id="some-id",
        at_partition=0,
        at=0,
        attempt=1,
        failed_ms=failed_ms,
        timestamp_ms=0,
    )


@pytest.mark.parametrize("recorded", [["a", "b"], []])
def test_a_sink_that_ran_is_missed_whatever_the_file_has_become(tmp_path: Path, recorded: list[str]) -> None:
    given = settings.load(home=tmp_path)
    paths = paths_of(given, "orders")
    file = tmp_path / "orders.yaml"
    file.write_text("name: orders")
    belonging.write_sinks(paths.folder, file, recorded)
    Checkpoint(paths.checkpoint, "orders").create(Committed(0, {AT: 0}, {"a": {AT: 1}, "b": {AT: 1}, "dead": {AT: 1}}))

    fewer, more = spec(tmp_path, "a"), spec(tmp_path, "a", "b", "c")
    assert (["b"], []) == (left_out(given, fewer, []), left_out(given, more, []))


def test_a_sink_that_the_pipeline_has_run_without_is_not_missed(tmp_path: Path) -> None:
    given = settings.load(home=tmp_path)
    paths = paths_of(given, "orders")
    belonging.write_sinks(paths.folder, tmp_path / "orders.yaml", ["a"])
    Checkpoint(paths.checkpoint, "orders").create(Committed(0, {AT: 0}, {"a": {AT: 1}, "b": {AT: 1}}))

    assert [] == left_out(given, spec(tmp_path, "a"), [letter(failed_ms=1)])


def test_where_the_pipeline_has_not_run_since_a_letter_says_itself_which_sinks_lack_it(tmp_path: Path) -> None:
    given = settings.load(home=tmp_path)
    now_ms = int(time.time() * 1000)
    elsewhere = left_out(given, spec(tmp_path, "a"), [letter(failed_ms=now_ms)])
    belonging.write_sinks(paths_of(given, "orders").folder, tmp_path / "orders.yaml", ["a"])
    before = left_out(given, spec(tmp_path, "a"), [letter(failed_ms=now_ms - 1)])
    since = left_out(given, spec(tmp_path, "a"), [letter(failed_ms=now_ms + 60_000)])
    of_one_sink = left_out(given, spec(tmp_path, "a"), [letter(failed_ms=now_ms + 60_000, sink="a")])

    assert (["b"], [], ["b"], []) == (elsewhere, before, since, of_one_sink)


def test_a_replay_needs_every_sink_that_it_was_begun_with(tmp_path: Path) -> None:
    begun = Replay(id="0123abcd", pipeline="orders", sinks=["a", "b"])
    file = tmp_path / "orders.yaml"

    require_sinks(begun, spec(tmp_path, "c", "b", "a"), file)
    with pytest.raises(BadInput, match=f"has rows for sink 'b', which {file} does not have"):
        require_sinks(begun, spec(tmp_path, "a"), file)


def test_letters_of_one_pipeline_need_no_name_and_those_of_two_do() -> None:
    first, second = letter(1), letter(2).model_copy(update={"pipeline": "returns"})

    assert "orders" == only_pipeline([first, first])
    with pytest.raises(BadInput, match=r"are of 2 pipelines: orders, returns\. Nothing was replayed") as caught:
        only_pipeline([first, second])
    assert "Replay those of one at a time, with --pipeline NAME" == caught.value.fix
