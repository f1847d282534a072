"""What Tab offers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def tab(folder: Path, *words: str) -> list[str]:
    """Press Tab behind the last word."""
    environment = {
        **os.environ,
        "_PENSTOCK_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("penstock", *words)),
        "COMP_CWORD": str(len(words)),
    }
    program = "from penstock.cli import app; app(prog_name='penstock')"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert "" == done.stderr
    return done.stdout.split()


def make_delta(folder: Path) -> None:
    (folder / "_delta_log").mkdir(parents=True)
    (folder / "_delta_log" / "0.json").touch()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("orders", "returns"):
        (tmp_path / ".penstock" / "pipelines" / name).mkdir(parents=True)
        make_delta(tmp_path / "tables" / name)
    (tmp_path / "fresh.yaml").touch()
    (tmp_path / "penstock.yaml").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("pipeline", "status", "o"), ["orders"]),
        (("pipeline", "rebuild", ""), ["fresh.yaml", "orders", "returns"]),
        (("table", "show", "tables/r"), ["tables/returns"]),
        (("drill", "ac"), ["acks"]),
        (("scenario", "kill-w"), ["kill-worker"]),
        (("--bootstrap", "127.0.0.1:1", "consume", "o"), []),
        (("--project", "nowhere.yaml", "pipeline", "status", "o"), []),
    ],
)
def test_names_that_are_there_are_offered_and_what_goes_wrong_is_silent(
    folder: Path, words: tuple[str, ...], expected: list[str]
) -> None:
    assert expected == tab(folder, *words)


def test_names_of_the_lab_are_offered_at_once_without_loading_what_they_name() -> None:
    heavy = "{'pydantic', 'pyarrow', 'confluent_kafka', 'penstock.lab.drills.drill', 'penstock.lab.scenarios.scenario'}"
    program = (
        "import sys; import penstock.cli; from penstock.cli import completion as tab;"
        f"print(len(tab.drills(None, '')), len(tab.scenarios(None, '')), {heavy} & {{*sys.modules}})"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "12 9 set()\n" == done.stdout


def test_names_that_a_shell_would_run_are_not_offered(folder: Path) -> None:
    for name in ("t$(id)", "t;id", "t`id`", "t\\$(id)", "t&id", "t|id", "t(id)"):
        make_delta(folder / "tables" / name)

    assert [] == tab(folder, "table", "show", "tables/t")
