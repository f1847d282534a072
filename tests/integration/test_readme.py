"""README's first steps, typed as they stand there, one block after the other in one folder."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from penstock.broker.cluster import Cluster

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, jar_folder: Path) -> Iterator[Path]:
    """Give an empty folder whose Kafka has a port of its own; it is stopped whatever happens."""
    (tmp_path / "penstock.yaml").write_text("cluster: {type: local, port: 0}\n", encoding="utf-8")
    yield tmp_path
    cluster = Cluster(tmp_path / ".penstock" / "broker", jar_folder)
    if cluster.state() is not None:
        cluster.down()


def typed(folder: Path, *commands: str) -> str:
    """Type commands into a shell; the first that fails ends it. What they say is in a file: servers outlive a pipe."""
    script, said = folder / "typed.sh", folder / "said"
    script.write_text("\n".join(commands), encoding="utf-8")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with said.open("wb") as output:
        done = subprocess.run(
            ["/bin/bash", "-e", "-o", "pipefail", str(script)],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            timeout=230,
            check=False,
        )
    assert 0 == done.returncode, said.read_text(encoding="utf-8")
    return said.read_text(encoding="utf-8")


def test_the_first_steps_of_the_readme_work_when_typed(folder: Path) -> None:
    first, background = blocks("sh")
    clients, account, logging = blocks("python")
    run_python = f"python - <<'PROGRAM'\n{clients}\n{account}\n{logging}\nPROGRAM"

    said = typed(folder, first, background.replace("penstock down", f"{run_python}\npenstock down"))

    for each in ("ada", "bob", "SchemaMismatch", '"id": 5'):
        assert each in said
    table = DeltaTable(str(folder / "shop" / "tables" / "orders"))
    assert [1, 2, 4, 5] == sorted(table.to_pyarrow_table().column("id").to_pylist())
