"""Examples that come along."""

import json
import tomllib
from pathlib import Path

from typer.testing import CliRunner

from penstock.cli import app

ROOT = Path(__file__).parents[3]


def test_each_example_says_what_it_is() -> None:
    listed = json.loads(CliRunner().invoke(app, ["examples", "list", "--json"]).stdout)

    assert {"numbers", "orders", "superhero", "produce_json"} <= {each["example"] for each in listed}
    assert [] == [each for each in listed if not each["about"]]


def test_a_copy_is_whole_and_never_goes_over_a_file(tmp_path: Path) -> None:
    first = CliRunner().invoke(app, ["examples", "copy", "orders", str(tmp_path)])
    again = CliRunner().invoke(app, ["examples", "copy", "orders", str(tmp_path)])
    unknown = CliRunner().invoke(app, ["examples", "copy", "nothing", str(tmp_path)])

    assert (0, 6, 3) == (first.exit_code, again.exit_code, unknown.exit_code)
    assert {"customers.csv", "orders.jsonl", "orders.py", "test_orders.py"} == {
        each.name for each in (tmp_path / "orders").iterdir()
    }


def test_the_wheel_has_every_example() -> None:
    kinds = {".csv", ".jsonl", ".py", ".toml", ".yaml"}
    there = [path.relative_to(ROOT) for path in (ROOT / "examples").rglob("*") if path.suffix in kinds]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]

    assert {str(path): f"penstock/{path}" for path in there} == included
