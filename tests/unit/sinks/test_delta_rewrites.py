"""A Delta table that another program compacts from an older version than the newest, which doubles rows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from penstock.errors import Conflict
from penstock.sinks.delta_compaction import compact
from penstock.sinks.delta_table import table_lock
from penstock.sinks.tables import restore
from unit.sinks.test_delta_log import Driver, ids


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


def join(path: Path) -> None:
    with table_lock(path):
        compact(DeltaTable(str(path)), path, None)


def doubled(path: Path, **options: Any) -> Driver:
    """Write three batches, compact them, and let another program do the same from the version before."""
    driver = Driver(path, coordinates=True, **options)
    for end in (1, 2, 3):
        driver.write(end)
    other = DeltaTable(str(path))
    join(path)
    driver.positions  # noqa: B018 - which reads the compaction
    other.optimize.compact()
    assert [0, 0, 1, 1, 2, 2] == ids(path)
    return driver


@pytest.mark.parametrize("key", [[], ["id"]], ids=["appended", "merged"])
@pytest.mark.parametrize("is_running", [True, False], ids=["running", "started again"])
def test_rows_that_another_compaction_has_doubled_end_the_pipeline_until_they_are_restored(
    path: Path, key: list[str], *, is_running: bool
) -> None:
    driver = doubled(path, key=key)
    if not is_running:
        driver = Driver(path, coordinates=True, key=key)

    with pytest.raises(Conflict, match=rf"version 5 .* has rows twice: .* table restore {path} --to 4; then") as caught:
        driver.write(4)
    left = ids(path)
    restore(path, "4")
    Driver(path, coordinates=True, key=key).write(5)

    assert "Nothing was written on top of it" in str(caught.value)
    assert [0, 0, 1, 1, 2, 2] == left
    assert list(range(5)) == ids(path)


def alone(path: Path) -> None:
    DeltaTable(str(path)).optimize.compact()


def two_in_turn(path: Path) -> None:
    alone(path)
    join(path)
    alone(path)


def rows_deleted(path: Path) -> None:
    DeltaTable(str(path)).delete("id = -1 OR id > 100")


@pytest.mark.parametrize("change", [alone, join, two_in_turn, rows_deleted])
@pytest.mark.parametrize("is_running", [True, False])
def test_compactions_that_see_each_other_end_nothing(
    path: Path, change: Callable[[Path], None], *, is_running: bool
) -> None:
    driver = Driver(path, coordinates=True)
    for end in (1, 2, 3):
        driver.write(end)
    change(path)
    if not is_running:
        driver = Driver(path, coordinates=True)
    driver.write(4)
    change(path)
    driver.write(5)

    assert list(range(5)) == ids(path)
