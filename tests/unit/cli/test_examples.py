"""Examples that come along."""

import errno
import json
import os
import shutil
import tomllib
from contextlib import chdir
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.pipeline.load import load

ROOT = Path(__file__).parents[3]


def test_each_example_says_what_it_is() -> None:
    listed = json.loads(CliRunner().invoke(app, ["examples", "list", "--json"]).stdout)

    assert {"numbers", "shipping", "superhero", "produce_json"} <= {each["example"] for each in listed}
    assert [] == [each for each in listed if not each["about"]]


def test_a_copy_is_whole_and_never_goes_over_a_file(tmp_path: Path) -> None:
    first = CliRunner().invoke(app, ["examples", "copy", "shipping", str(tmp_path)])
    again = CliRunner().invoke(app, ["examples", "copy", "shipping", str(tmp_path)])
    unknown = CliRunner().invoke(app, ["examples", "copy", "shiping", str(tmp_path)])

    assert "Did you mean 'shipping'?" in unknown.stderr
    assert (0, 6, 3) == (first.exit_code, again.exit_code, unknown.exit_code)
    assert {"customers.csv", "orders.jsonl", "shipping.py", "test_shipping.py"} == {
        each.name for each in (tmp_path / "shipping").iterdir()
    }


@pytest.mark.parametrize("example", ["tutorial", "consume"])
def test_a_full_disk_is_told_in_one_line_and_leaves_no_half_of_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str
) -> None:
    def full(source: str, target: str) -> None:
        Path(target).touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), source)

    monkeypatch.setattr(shutil, "copy2", full)

    said = CliRunner().invoke(app, ["examples", "copy", example, str(tmp_path)])

    assert (7, 1) == (said.exit_code, len(said.stderr.splitlines()))
    assert "cannot be written: No space left on device. What was copied has been removed. Make room" in said.stderr
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("like", ["fan_out", "iceberg", "tutorial", "windows/minutes"])
def test_a_pipeline_is_written_after_an_example_and_can_run(tmp_path: Path, like: str) -> None:
    with chdir(tmp_path):
        written = CliRunner().invoke(app, ["pipeline", "new", "mine", "--like", like])
        checked = CliRunner().invoke(app, ["pipeline", "check", "mine.yaml"])

    assert 0 == written.exit_code, written.stderr
    assert "mine" == load(tmp_path / "mine.yaml").name
    assert "pipeline 'mine' can run\n" in checked.stderr


def test_an_example_that_is_not_there_or_is_no_single_file_is_answered_with_those_that_are(tmp_path: Path) -> None:
    with chdir(tmp_path):
        said = CliRunner().invoke(app, ["pipeline", "new", "mine", "--like", "fanout"])

    expected = "there is no example 'fanout' of one file. Did you mean 'fan_out'? There are fan_out, iceberg, tutorial"
    assert (3, True) == (said.exit_code, expected in said.stderr)
    assert not (tmp_path / "mine.yaml").exists()


def test_the_wheel_has_every_example() -> None:
    kinds = {".csv", ".jsonl", ".py", ".toml", ".yaml"}
    there = [path.relative_to(ROOT) for path in (ROOT / "examples").rglob("*") if path.suffix in kinds]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]

    assert {str(path): f"penstock/{path}" for path in there} == included
