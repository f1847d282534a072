"""Which sinks a replay must write to before it may settle anything."""

from pathlib import Path

import pytest

from penstock.config import settings
from penstock.delivery.checkpoint import Checkpoint, Committed
from penstock.delivery.ledger import Replay
from penstock.errors import BadInput
from penstock.operate import belonging
from penstock.operate.driver import paths_of
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


@pytest.mark.parametrize("recorded", [["a", "b"], []])
def test_a_sink_that_ran_is_missed_whatever_the_file_has_become(tmp_path: Path, recorded: list[str]) -> None:
    given = settings.load(home=tmp_path)
    paths = paths_of(given, "orders")
    file = tmp_path / "orders.yaml"
    file.write_text("name: orders")
    belonging.write_sinks(paths.folder, file, recorded)
    Checkpoint(paths.checkpoint, "orders").create(Committed(0, {AT: 0}, {"a": {AT: 1}, "b": {AT: 1}, "dead": {AT: 1}}))

    assert (["b"], []) == (left_out(given, spec(tmp_path, "a")), left_out(given, spec(tmp_path, "a", "b", "c")))


def test_a_sink_that_the_pipeline_has_run_without_is_not_missed(tmp_path: Path) -> None:
    given = settings.load(home=tmp_path)
    paths = paths_of(given, "orders")
    belonging.write_sinks(paths.folder, tmp_path / "orders.yaml", ["a"])
    Checkpoint(paths.checkpoint, "orders").create(Committed(0, {AT: 0}, {"a": {AT: 1}, "b": {AT: 1}}))

    assert [] == left_out(given, spec(tmp_path, "a"))


def test_a_replay_needs_every_sink_that_it_was_begun_with(tmp_path: Path) -> None:
    begun = Replay(id="0123abcd", pipeline="orders", sinks=["a", "b"])
    file = tmp_path / "orders.yaml"

    require_sinks(begun, spec(tmp_path, "c", "b", "a"), file)
    with pytest.raises(BadInput, match=f"has rows for sink 'b', which {file} does not have"):
        require_sinks(begun, spec(tmp_path, "a"), file)
