"""The workers' files: where they are found, that each is a sound pipeline, and what Spark's log tells of them."""

import json
from pathlib import Path

import pytest

from penstock.example_files import examples_folder
from penstock.lab.scenarios.workers import shares
from penstock.pipeline.load import load_with_warnings

WORKERS = ("combat", "game_meta", "game_metrics", "game_podium", "message_flow", "raw")


def test_the_files_of_the_repository_are_found() -> None:
    assert {f"{name}.yaml" for name in WORKERS} == {
        path.name for path in (examples_folder() / "superhero").glob("*.yaml") if path.name != "penstock.yaml"
    }


@pytest.mark.parametrize("name", WORKERS)
def test_every_worker_is_a_sound_pipeline_that_ends_by_itself(name: str) -> None:
    spec, warnings = load_with_warnings(examples_folder() / "superhero" / f"{name}.yaml")

    assert [] == warnings
    assert "scheduled" == spec.speed
    assert name.replace("_", "-") == spec.name


def test_which_executor_took_which_partition_is_read_from_sparks_event_log(tmp_path: Path) -> None:
    def ended(stage: int, index: int, executor: str, reason: str = "Success") -> str:
        told = {"Index": index, "Executor ID": executor}
        return json.dumps(
            {
                "Event": "SparkListenerTaskEnd",
                "Stage ID": stage,
                "Task Info": told,
                "Task End Reason": {"Reason": reason},
            }
        )

    lines = [
        json.dumps({"Event": "SparkListenerApplicationStart"}),
        *(ended(1, index, str(index % 2)) for index in range(4)),
        *(ended(2, index, "1") for index in range(3)),
        ended(2, 3, "0", "ExecutorLostFailure"),
        ended(3, 0, "0"),
    ]
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "events_1").write_text("\n".join(lines))

    assert {"0": {0: 1, 2: 1}, "1": {0: 1, 1: 2, 2: 1, 3: 1}} == shares(tmp_path)
