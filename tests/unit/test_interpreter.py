"""Whoever may write to the working folder does not choose what Penstock runs."""

import subprocess
from pathlib import Path

import pytest

import penstock
from penstock.interpreter import SAFE_PYTHON

SOURCES = Path(penstock.__file__).parent
STARTS_NO_MODULE = {"interpreter.py", "driver/session.py", "lab/bench/peer_runs.py"}
"""Those that name Python: to itself, to Spark, and to uv."""


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder with modules of a stranger's; give the file that is there once one of them has run."""
    ran = tmp_path / "ran"
    (tmp_path / "shared" / "penstock").mkdir(parents=True)
    for name in ("penstock/__init__.py", "pandas.py", "yaml.py", "uv.py"):
        (tmp_path / "shared" / name).write_text(f"open({str(ran)!r}, 'a').write(__name__)\n")
    monkeypatch.chdir(tmp_path / "shared")
    return ran


def test_modules_in_the_working_folder_are_not_run(planted: Path) -> None:
    done = subprocess.run([*SAFE_PYTHON, "-m", "penstock", "--version"], capture_output=True, text=True, check=False)

    assert (0, False) == (done.returncode, planted.exists()), done.stderr


def test_every_python_that_penstock_starts_is_the_safe_one() -> None:
    naming = {
        path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py") if "sys.executable" in path.read_text()
    }

    assert naming == STARTS_NO_MODULE
