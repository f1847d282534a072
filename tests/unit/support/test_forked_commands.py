"""Commands that are forked off and those that are started: the same to whoever runs them."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.forked_commands import Forker

PIPELINE = "name: p\nsource: {topics: [t]}\ndecode: {type: json, schema: id bigint}\nsinks: [{type: console}]\n"


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["topic"], ["topic", "list", "--nonsense"], ["pipeline", "check", "p.yaml", "--json"]],
    ids=" ".join,
)
def test_a_forked_command_says_and_ends_as_one_that_is_started(
    forker: Forker, tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    env = dict(os.environ)
    started = subprocess.run(
        [sys.executable, "-m", "penstock", *arguments], cwd=tmp_path, env=env, capture_output=True, check=False
    )

    forked = forker.run(arguments, cwd=tmp_path, env=env, stdin=b"", timeout_s=60)

    assert (started.returncode, started.stdout, started.stderr) == (forked.returncode, forked.stdout, forked.stderr)


def test_each_has_its_own_folder_and_environment_and_several_run_at_once(forker: Forker, tmp_path: Path) -> None:
    def init(number: int) -> int:
        folder = tmp_path / str(number)
        folder.mkdir()
        env = {**os.environ, "PENSTOCK_DEBUG": str(number)}
        return forker.run(["init"], cwd=folder, env=env, stdin=b"", timeout_s=60).returncode

    with ThreadPoolExecutor(4) as threads:
        codes = list(threads.map(init, range(4)))

    assert [0] * 4 == codes
    assert [f"{number}/penstock.yaml" for number in range(4)] == sorted(
        str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/penstock.yaml")
    )


def test_what_python_settles_at_its_start_is_settled_by_starting_it(forker: Forker, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONVERBOSE": "1"}

    done = forker.run(["--version"], cwd=tmp_path, env=env, stdin=b"", timeout_s=60)

    assert b"import 'site'" in done.stderr


def test_one_that_takes_too_long_is_ended(forker: Forker, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\n\ntime.sleep(60)\n")
    command = ["pipeline", "check", "slow.py"]

    with pytest.raises(TimeoutError):
        forker.run(command, cwd=tmp_path, env=dict(os.environ), stdin=b"", timeout_s=0.5)
