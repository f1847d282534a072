import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.steps.python import Python
from penstock.steps.step import StepContext

from support.python_step import On

_numbers = itertools.count(1)


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Write a module of the user's beside the pipeline file, under a name that no other test uses; return its name."""
    path = list(sys.path)

    def write(code: str) -> str:
        name = f"steps_of_test_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(code)
        return name

    yield write
    sys.path[:] = path


@pytest.fixture
def run(module: Callable[[str], str], tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Run a function `f` over chunks; return the rows that come out, in the order of their offsets."""

    def run_it(
        code: str, *batches: pa.RecordBatch, on: On = "rows", returns: str | None = None
    ) -> list[dict[str, Any]]:
        spec = Python(python=f"{module(code)}:f", on=on, returns=returns)
        task = spec.open(StepContext(batches[0].schema, tmp_path, tmp_path / "notes"))
        out = pa.Table.from_batches(task(iter(batches), 0), task.schema)
        out.validate(full=True)
        return sorted(out.to_pylist(maps_as_pydicts="strict"), key=lambda row: int(row["_offset"]))

    return run_it
