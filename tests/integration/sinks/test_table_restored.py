"""`penstock table restore` under a pipeline: it writes what the table lacks then once, or says why it cannot."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import PositionLost
from penstock.operate import repair

from conftest import Cli
from support.iceberg_tables import iceberg_rows
from support.pipelines import Lab


def ids(kind: str, path: Path, lab: Lab) -> list[int]:
    return sorted(row["id"] for row in iceberg_rows(path)) if kind == "iceberg" else lab.ids(path)


@pytest.fixture
def land(lab: Lab) -> Callable[..., None]:
    def run(topic: str, kind: str, *numbers: int, **keys: Any) -> None:
        lab.send_ids(topic, numbers)
        lab.run(lab.spec(topic, sinks=[{"type": kind, "path": str(lab.table), **keys}]))

    return run


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_pipeline_writes_once_what_the_command_has_taken_out(
    lab: Lab, cli: Cli, land: Callable[..., None], kind: str
) -> None:
    topic = lab.kafka.topic("restored")
    land(topic, kind, 1, 2)
    first = cli("table", "history", lab.table, "--json").json[0]["version"]
    land(topic, kind, 3)
    assert 0 == cli("table", "compact", lab.table).code
    restore = ("table", "restore", lab.table, "--to", first)

    unasked = cli(*restore)
    before = ids(kind, lab.table, lab)
    said = cli(*restore, "--yes")
    restored = ids(kind, lab.table, lab)
    land(topic, kind, 4)

    assert (1, [1, 2, 3]) == (unasked.code, before)
    assert (0, [1, 2]) == (said.code, restored), said.err
    told = {"delta": f"holds what version {first} held", "iceberg": f"is at version {first} again"}[kind]
    assert f"{told}; its pipeline writes what came since again" in said.err
    assert [1, 2, 3, 4] == ids(kind, lab.table, lab)


def test_a_pipeline_refuses_a_table_brought_back_to_before_its_first_batch_until_it_is_rebuilt(
    lab: Lab, cli: Cli, land: Callable[..., None]
) -> None:
    topic = lab.kafka.topic("restored-whole")
    land(topic, "delta", 1, 2)

    said = cli("table", "restore", lab.table, "--to", "0", "--yes")
    with pytest.raises(PositionLost, match=f"penstock pipeline rebuild {topic}"):
        land(topic, "delta")
    refused = lab.ids()
    with lab.runner(lab.spec(topic)) as runner:
        repair.rebuild(runner)
    land(topic, "delta", 3)

    assert (0, []) == (said.code, refused)
    assert [1, 2, 3] == lab.ids()


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_version_that_is_not_there_is_named_and_the_table_stays(
    lab: Lab, cli: Cli, land: Callable[..., None], kind: str
) -> None:
    topic = lab.kafka.topic("not-restored")
    land(topic, kind, 1)

    gone = cli("table", "restore", lab.table, "--to", "77", "--yes")
    nonsense = cli("table", "restore", lab.table, "--to", "yesterdayish", "--yes")

    assert (3, 1, True) == (gone.code, len(gone.error_lines), "77" in gone.err)
    assert (2, True) == (nonsense.code, "'yesterdayish' is neither a version nor a time" in nonsense.err)
    assert [1] == ids(kind, lab.table, lab)
