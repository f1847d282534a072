"""Spark's checkpoint beside the positions of the sinks: what did not lead them to where they stand is refused."""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from penstock.driver import stateful
from penstock.driver.paths import PipelinePaths, Progress
from penstock.driver.stateful import StatefulRunner
from penstock.errors import CheckpointLost, PositionLost, StateOutdated
from penstock.pipeline.spec import PipelineSpec

ROWS = ds.dataset(pa.table({"k": [1]}))
_times = itertools.count()


class Lab:
    """A pipeline whose Spark is played by the test: it writes what Spark writes, in Spark's order."""

    def __init__(self, folder: Path, *sinks: dict[str, object]) -> None:
        source = {"type": "delta", "path": str(folder / "source")}
        told = list(sinks) or [{"type": "delta", "path": str(folder / "table"), "key": ["k"]}]
        self.spec = PipelineSpec.model_validate({"name": "p", "source": source, "sinks": told})
        self.folder = folder
        self.checkpoint = folder / "home" / "checkpoint"

    def runner(self) -> StatefulRunner:
        return StatefulRunner(
            self.spec, PipelinePaths(self.folder / "home"), lambda: pytest.fail("no Spark here"), self.folder
        )

    def plan(self, batch: int, offsets: str) -> None:
        folder = self.checkpoint / "spark" / "offsets"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(batch)).write_text(offsets)
        (folder.parent / "metadata").write_text('{"id":"q"}')

    def commit(self, batch: int) -> None:
        folder = self.checkpoint / "spark" / "commits"
        folder.mkdir(exist_ok=True)
        (folder / str(batch)).write_text("v1")

    def run(self, *batches: int) -> list[tuple[int, int]]:
        """Run batches, planned now unless they are; give what was read and written."""
        heard: list[Progress] = []
        with self.runner() as opened:
            opened.begin()
            for batch in batches:
                if not (self.checkpoint / "spark" / "offsets" / str(batch)).exists():
                    self.plan(batch, f"batch {batch}, {next(_times)}")
                opened._batch(ROWS, batch, heard.append)
                if batch != batches[-1]:
                    self.commit(batch)
        reports = [each.report for each in heard if each.report is not None]
        return [(report.read, report.sinks[self.spec.sink_names[0]].written) for report in reports]

    def rebuild(self) -> None:
        with self.runner() as opened:
            opened.rebuild()


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results of a batch are there at once."""
    monkeypatch.setattr(stateful, "collect_as_files", lambda rows, _folder: rows)


@pytest.fixture(params=["delta", "iceberg"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    return Lab(tmp_path, {"type": request.param, "path": str(tmp_path / "table"), "key": ["k"]})


def test_a_batch_that_runs_again_is_not_merged_again_nor_counted(lab: Lab) -> None:
    assert [(1, 1), (1, 1)] == lab.run(0, 1)
    assert [(0, 0)] == lab.run(1)


def test_an_old_copy_of_a_checkpoint_is_refused_at_the_start_and_goes_on_after_a_rebuild(lab: Lab) -> None:
    lab.run(0)
    shutil.copytree(lab.checkpoint, lab.folder / "copy")
    lab.run(1, 2)
    shutil.rmtree(lab.checkpoint)
    shutil.copytree(lab.folder / "copy", lab.checkpoint)

    with pytest.raises(CheckpointLost, match="penstock pipeline rebuild p"):
        lab.run()
    lab.rebuild()
    lab.run()
    assert [(1, 1)] == lab.run(0)


def test_a_batch_of_the_same_number_with_other_rows_is_refused(lab: Lab) -> None:
    lab.run(0, 1)
    lab.plan(1, "what Spark plans again when offsets/1 is gone")

    with pytest.raises(CheckpointLost, match="holds 2 batches that are not those in"):
        lab.run()


def _without_state(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "spark")


def _without_query_id(checkpoint: Path) -> None:
    (checkpoint / "spark" / "metadata").unlink()


def _of_another_query(checkpoint: Path) -> None:
    (checkpoint / "spark" / "metadata").write_text('{"id":"other"}')


def _without_offsets(checkpoint: Path) -> None:
    shutil.rmtree(checkpoint / "spark" / "offsets")


def _without_the_offsets_before(checkpoint: Path) -> None:
    (checkpoint / "spark" / "offsets" / "0").unlink()
    (checkpoint / "spark" / "offsets" / "1").write_text("changed")


def _without_our_part(checkpoint: Path) -> None:
    (checkpoint / "metadata.json").unlink()


def _with_our_part_damaged(checkpoint: Path) -> None:
    (checkpoint / "metadata.json").write_text('{"pipe')


@pytest.mark.parametrize(
    "damage",
    [
        _without_state,
        _without_query_id,
        _of_another_query,
        _without_offsets,
        _without_the_offsets_before,
        _without_our_part,
        _with_our_part_damaged,
    ],
)
def test_a_checkpoint_with_parts_missing_is_refused(lab: Lab, damage: Callable[[Path], None]) -> None:
    lab.run(0, 1)
    damage(lab.checkpoint)

    with pytest.raises(CheckpointLost, match="penstock pipeline rebuild p"):
        lab.run()


@pytest.mark.parametrize("damage", [_without_state, _without_our_part])
def test_a_lost_state_is_not_recreated_where_no_sink_keeps_a_position_either(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    lab = Lab(tmp_path, {"type": "console"})
    lab.run(0)
    damage(lab.checkpoint)

    with pytest.raises(CheckpointLost):
        lab.run()


def test_a_pipeline_that_died_before_its_first_batch_begins_again(lab: Lab) -> None:
    lab.run()
    lab.plan(0, "planned, and then killed")
    lab.run()

    assert [(1, 1)] == lab.run(0)


def test_a_rebuild_that_dies_half_way_leaves_nothing_that_a_run_accepts(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.run(0)
    with monkeypatch.context() as patch:
        patch.setattr(stateful, "write_versioned", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            lab.rebuild()

    with pytest.raises(CheckpointLost, match="which holds the state, is not in"):
        lab.run()
    lab.rebuild()
    lab.run()
    assert ["metadata.json"] == [path.name for path in lab.checkpoint.iterdir()]


def test_a_new_checkpoint_says_where_the_sinks_stood(lab: Lab) -> None:
    lab.run(0)
    with lab.runner() as opened:
        position = opened.sinks[0].position()
    lab.rebuild()

    told = orjson.loads((lab.checkpoint / "metadata.json").read_bytes())
    computed: dict[str, object] = {"watermark": None, "steps": []}
    assert {
        "format": 1,
        "pipeline": "p",
        "positions": {lab.spec.sink_names[0]: position},
        "query": None,
        "computation": computed,
    } == told


@pytest.mark.parametrize("name", ["console", "screen"])
def test_a_terminal_has_no_position_to_lose_whatever_it_is_called(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = Lab(tmp_path, {"type": "console", "name": name})

    lab.run(0)

    assert '{"k":1}\n' == capsys.readouterr().out


@pytest.mark.parametrize("name", ["delta", "console"])
def test_a_table_without_its_position_is_noticed_whatever_it_is_called(name: str, tmp_path: Path) -> None:
    lab = Lab(tmp_path, {"type": "delta", "name": name, "path": str(tmp_path / "table"), "key": ["k"]})
    lab.run(0)
    lab.commit(0)
    shutil.rmtree(tmp_path / "table")

    with pytest.raises(PositionLost, match="penstock pipeline rebuild p"):
        lab.run()


COUNT = "SELECT k, count(*) AS n FROM events WHERE k > 1 GROUP BY k"


def with_steps(lab: Lab, *steps: object, column: str | None = None, delay: str = "10m") -> Lab:
    """Change the pipeline file."""
    listed = [each if isinstance(each, dict) else {"sql": each} for each in steps]
    watermark = {"column": column, "delay": delay} if column else None
    source = {"type": "delta", "path": str(lab.folder / "source"), "watermark": watermark}
    told = {"name": "p", "source": source, "steps": listed, "sinks": lab.spec.sinks}
    lab.spec = PipelineSpec.model_validate(told)
    return lab


@pytest.mark.parametrize(
    "steps",
    [
        [COUNT.replace("> 1", "> 2")],
        [COUNT.replace("count(*)", "sum(k)")],
        ["SELECT k + 1 AS k FROM events", COUNT],
        [COUNT, "SELECT n, count(*) AS keys FROM events GROUP BY n"],
        [{"stateful": "ranking:Best", "key": ["k"], "returns": "k bigint"}],
        [],
    ],
)
def test_other_steps_over_old_state_are_refused_until_it_is_computed_again(lab: Lab, steps: list[object]) -> None:
    with_steps(lab, COUNT).run(0)

    with pytest.raises(StateOutdated, match="penstock pipeline rebuild p"):
        with_steps(lab, *steps).run()
    assert [(1, 1)] == with_steps(lab, COUNT).run(1)
    with_steps(lab, *steps).rebuild()
    assert [(1, 1)] == lab.run(0)


def test_another_column_of_event_times_over_old_state_is_refused_and_another_delay_is_not(lab: Lab) -> None:
    with_steps(lab, COUNT, column="at").run(0)

    assert [(1, 1)] == with_steps(lab, COUNT, column="at", delay="1h").run(1)
    with pytest.raises(StateOutdated):
        with_steps(lab, COUNT, column="then").run()


def test_what_does_not_concern_the_state_may_change(lab: Lab) -> None:
    with_steps(lab, COUNT, "SELECT k, n FROM events").run(0)

    assert [(1, 1)] == with_steps(lab, f"-- how many\n{COUNT.lower()}", "SELECT k, n + 1 AS n FROM events").run(1)
    assert [(1, 1)] == with_steps(lab, COUNT).run(2)


def test_a_processor_may_be_fixed_and_its_keys_stay(lab: Lab) -> None:
    step = {"stateful": "ranking:Best", "key": ["k"], "returns": "k bigint"}
    with_steps(lab, step).run(0)

    assert [(1, 1)] == with_steps(lab, {**step, "stateful": "fixed:Best"}).run(1)
    with pytest.raises(StateOutdated):
        with_steps(lab, {**step, "key": ["k", "n"]}).run()


def test_before_the_first_batch_there_is_no_state_to_fit(lab: Lab) -> None:
    with_steps(lab, COUNT).run()

    assert [(1, 1)] == with_steps(lab, COUNT.replace("> 1", "> 2")).run(0)
