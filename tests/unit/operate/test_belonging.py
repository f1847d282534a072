"""Whose name, and which home folder."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.config import settings
from penstock.delivery.checkpoint import Checkpoint, Committed
from penstock.errors import CheckpointLost, Conflict
from penstock.operate import belonging
from penstock.operate.known_pipelines import paths_of
from penstock.operate.status import Status, saved


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "first.yaml").write_text("name: orders\n")
    belonging.write_file(tmp_path / "home", tmp_path / "first.yaml")
    return tmp_path / "home"


def test_the_name_of_another_file_that_is_still_there_is_refused_with_both(home: Path, tmp_path: Path) -> None:
    second = tmp_path / "second.yaml"
    second.write_text("name: orders\n")

    with pytest.raises(Conflict) as caught:
        belonging.require_own_name(home, "orders", second)

    assert f"the name 'orders' belongs to the pipeline in {tmp_path}/first.yaml" in str(caught.value)
    assert str(second) in str(caught.value)


@pytest.mark.parametrize("change", ["moved", "renamed", "damaged", "its own"])
def test_a_name_is_free_for_its_own_file_and_for_one_that_takes_its_place(
    home: Path, tmp_path: Path, change: str
) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    if change == "moved":
        first.rename(second)
    elif change == "renamed":
        first.write_text("name: returns\n")
    elif change == "damaged":
        first.write_text("name: [\n")

    belonging.require_own_name(home, "orders", first if change == "its own" else second)


def test_the_sinks_that_ran_stay_on_record_until_others_are_open(home: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    before = belonging.last_run(home)
    belonging.write_sinks(home, first, ["a", "b"])
    belonging.write_file(home, second)
    starting = belonging.last_run(home)
    belonging.write_sinks(home, second, ["a"])

    assert (first, []) == (before.file, before.sinks)
    assert (second, ["a", "b"]) == (starting.file, starting.sinks)
    assert ["a"] == belonging.last_run(home).sinks


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}', '{"format": 1, "file": 7}'])
def test_a_damaged_record_of_the_file_is_named_and_nothing_is_taken_for_it(home: Path, content: str) -> None:
    (home / "pipeline.json").write_text(content)

    with pytest.raises(Conflict, match=f"{home}/pipeline.json is damaged"):
        belonging.require_own_name(home, "orders", home / "orders.yaml")


def test_a_pipeline_that_ran_from_another_home_is_told_which(tmp_path: Path) -> None:
    file, there = tmp_path / "orders.yaml", tmp_path / ".penstock"
    Checkpoint(there / "pipelines" / "orders" / "checkpoint", "orders").create(Committed(batch=0, starts={}))

    with (
        pytest.raises(CheckpointLost) as caught,
        belonging.other_home_named("orders", file, tmp_path / "b" / ".penstock"),
    ):
        raise CheckpointLost("the checkpoint is lost", safe="Nothing was touched")

    expected = f"pipeline 'orders' ran from the home folder {there}, and this is {tmp_path}/b/.penstock"
    assert expected == caught.value.what
    assert f"penstock --home {there} pipeline run {file}" in caught.value.fix


def test_a_checkpoint_that_is_lost_at_home_stays_lost(tmp_path: Path) -> None:
    with (
        pytest.raises(CheckpointLost, match="the checkpoint is lost"),
        belonging.other_home_named("orders", tmp_path / "orders.yaml", tmp_path / ".penstock"),
    ):
        raise CheckpointLost("the checkpoint is lost")


@pytest.mark.parametrize("command", ["start", "run --once"])
def test_a_copy_with_the_same_name_is_refused_and_the_state_of_the_file_that_has_the_name_stays(
    tmp_path: Path, command: str
) -> None:
    owner, copy = (tmp_path / name for name in ("orders.yaml", "copy.yaml"))
    for file in (owner, copy):
        file.write_text("name: orders\nsource: {topics: [orders]}\ndecode: {type: raw}\nsinks: [{type: console}]\n")
    folder = paths_of(settings.load(home=tmp_path / "home"), "orders").folder
    folder.mkdir(parents=True)
    belonging.write_file(folder, owner)
    finished = Status(pipeline="orders", state="finished", pid=1, file=str(owner), events=3)
    finished.save(folder)

    said = CliRunner().invoke(app, ["--home", str(tmp_path / "home"), "pipeline", *command.split(), str(copy)])

    assert Conflict.exit_code == said.exit_code, said.stderr
    assert f"the name 'orders' belongs to the pipeline in {owner}, and {copy} has it too" in said.stderr
    assert finished == saved(folder)
