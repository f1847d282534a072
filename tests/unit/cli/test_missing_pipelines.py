"""Pipelines and files that are not there: one line that says what is, and what to type."""

from contextlib import chdir
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app


@pytest.mark.parametrize("command", ["gaps", "history", "status", "stop", "logs", "rate"])
def test_a_pipeline_that_never_ran_is_reported_as_such(tmp_path: Path, command: str) -> None:
    said = CliRunner().invoke(app, ["--home", str(tmp_path), "pipeline", command, "ordres"], prog_name="penstock")

    assert (3, "") == (said.exit_code, said.stdout)
    assert "error: no pipeline 'ordres' has run here. List them with: penstock pipeline list\n" == said.stderr


@pytest.mark.parametrize("command", ["check", "run", "start", "rebuild", "skip-gap"])
def test_a_pipeline_file_that_is_not_there_is_reported_with_those_that_are(tmp_path: Path, command: str) -> None:
    wanted = tmp_path / "ordres.yaml"
    arguments = ["--home", str(tmp_path / "home"), "pipeline", command, str(wanted)]

    empty = CliRunner().invoke(app, arguments, prog_name="penstock")
    for name in ("totals.yml", "penstock.yaml"):
        (tmp_path / name).touch()
    others = CliRunner().invoke(app, arguments, prog_name="penstock")
    (tmp_path / "orders.yaml").touch()
    near = CliRunner().invoke(app, arguments, prog_name="penstock")

    assert [3, 3, 3] == [each.exit_code for each in (empty, others, near)]
    missing = f"error: there is no pipeline file {wanted}."
    assert f"{missing} Write one with: penstock pipeline new NAME\n" == empty.stderr
    there = f"There is {tmp_path / 'totals.yml'}; penstock pipeline new NAME writes another"
    assert f"{missing} {there}\n" == others.stderr
    assert f"{missing} Did you mean {tmp_path / 'orders.yaml'}?\n" == near.stderr


def test_a_missing_pipeline_file_of_this_folder_is_written_under_its_own_name(tmp_path: Path) -> None:
    with chdir(tmp_path):
        said = [
            CliRunner().invoke(app, ["pipeline", "check", name], prog_name="penstock").stderr
            for name in ("sales.yaml", "Sales.yaml", "sales.py")
        ]

    written = [each.partition("Write one with: penstock pipeline new ")[2].rstrip("\n") for each in said]
    assert ["sales", "NAME", "NAME"] == written


def test_of_many_pipeline_files_the_first_are_named_and_the_rest_is_counted(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"a{number:02}.yaml").touch()

    said = CliRunner().invoke(app, ["pipeline", "check", str(tmp_path / "orders.yaml")], prog_name="penstock")

    assert f"There are {tmp_path / 'a00.yaml'}, " in said.stderr
    assert f"{tmp_path / 'a09.yaml'} and 2 more; " in said.stderr


def test_a_pipeline_that_never_ran_and_has_a_file_is_told_how_to_start_it(tmp_path: Path) -> None:
    (tmp_path / "orders.yaml").touch()

    with chdir(tmp_path):
        said = CliRunner().invoke(app, ["pipeline", "status", "orders"], prog_name="penstock")

    assert (
        "error: no pipeline 'orders' has run here. Start it with: penstock pipeline start orders.yaml\n" == said.stderr
    )


@pytest.mark.parametrize("arguments", [["status"], ["list"], ["status", "orders"], ["stop", "orders"]])
def test_below_the_folder_of_a_cluster_its_pipelines_are_looked_for_there(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / ".penstock/broker").mkdir(parents=True, mode=0o700)
    (tmp_path / ".penstock/broker/cluster.json").write_text("{}")
    (tmp_path / "sub").mkdir()

    with chdir(tmp_path / "sub"):
        said = CliRunner().invoke(app, ["pipeline", *arguments], prog_name="penstock")

    assert 3 == said.exit_code
    assert f"but there is one in {tmp_path}. Change to that folder, or name it: --home {tmp_path}" in said.stderr


def test_a_name_that_no_pipeline_has_is_reported_with_what_to_name(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["--home", str(tmp_path), "pipeline", "rebuild", "orders"], prog_name="penstock")

    assert 3 == said.exit_code
    assert "no pipeline 'orders' has run here. List those that have with: penstock pipeline list" in said.stderr
    assert "of one that has not, name the file" in said.stderr
