"""The property of an Iceberg table that says its positions, removed or overwritten by somebody."""

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import PositionLost
from penstock.sinks import tables
from penstock.sinks.iceberg_positions import PROPERTY

from support.iceberg_driver import SCHEMA, A, Driver, loaded
from support.iceberg_tables import iceberg_rows

GARBAGE = [
    None,
    "",
    "{",
    "[]",
    '{"snapshot": 1}',
    '{"snapshot": NEWEST, "positions": {"combat/iceberg/Ab-_9": {"0": "x"}}}',
]


def say(path: Path, text: str | None) -> None:
    """Let the property of the table say something else; None removes it."""
    table = loaded(path)
    with table.transaction() as transaction:
        if text is None:
            transaction.remove_properties(PROPERTY)
        else:
            newest = str(table.metadata.current_snapshot_id)
            transaction.set_properties({PROPERTY: text.replace("NEWEST", newest)})


def write_as_another(path: Path) -> None:
    """Put a snapshot on top of the table's."""
    loaded(path).append(pa.table({"id": [99], "text": ["another's"]}, SCHEMA))


def expire_others(path: Path) -> None:
    """Expire all snapshots but the newest."""
    table = loaded(path)
    newest = table.metadata.current_snapshot_id
    table.maintenance.expire_snapshots().by_ids(
        [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id != newest]
    ).commit()


def forget(path: Path) -> None:
    """Delete the metadata that the table had before."""
    for entry in loaded(path).metadata.metadata_log:
        Path(entry.metadata_file.removeprefix("file://")).unlink()


def ids(path: Path) -> list[int]:
    return sorted(row["id"] for row in iceberg_rows(path, "id"))


@pytest.mark.parametrize("text", GARBAGE)
@pytest.mark.parametrize("writes_another", [True, False], ids=["on top of others", "on top of ours"])
def test_the_summaries_of_our_snapshots_say_what_the_property_does_not(
    tmp_path: Path, text: str | None, *, writes_another: bool
) -> None:
    path = tmp_path / "table"
    driver = Driver(path)
    driver.write(1, 2)
    if writes_another:
        write_as_another(path)
    say(path, text)

    found = (driver.positions, Driver(path).positions)
    driver.write(3)

    assert ({A: 2}, {A: 2}) == found
    assert ({A: 3}, {A: 3}) == (driver.positions, Driver(path).positions)
    assert [1, 2, 3, *([99] if writes_another else [])] == ids(path)


def test_another_number_in_the_property_is_not_believed_while_a_summary_knows_better(tmp_path: Path) -> None:
    path = tmp_path / "table"
    driver = Driver(path)
    driver.write(1, 2)
    say(path, '{"snapshot": NEWEST, "positions": {"combat/iceberg/Ab-_9": {"0": 1}}}')

    assert {A: 2} == driver.positions


def test_positions_of_other_pipelines_are_carried_on_though_the_property_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "table"
    other = Driver(path, pipeline="other")
    other.write(1, 2)
    say(path, None)
    Driver(path).write(3)

    assert {A: 2} == other.positions
    assert [1, 2, 3] == ids(path)


def test_a_compacted_table_says_its_positions_though_the_property_was_gone(tmp_path: Path) -> None:
    path = tmp_path / "table"
    driver = Driver(path)
    driver.write(1, 2)
    write_as_another(path)
    say(path, None)

    tables.compact(path, "7d")
    expire_others(path)
    forget(path)

    assert {A: 2} == Driver(path).positions


def test_a_property_overwritten_when_nothing_else_knows_ends_the_pipeline(tmp_path: Path) -> None:
    path = tmp_path / "table"
    driver = Driver(path)
    driver.write(1, 2)
    write_as_another(path)
    expire_others(path)
    say(path, "{")
    forget(path)

    with pytest.raises(PositionLost, match=r"do not tell any more .* Nothing was written\. .* pipeline rebuild combat"):
        driver.write(3)
    assert [1, 2, 99] == ids(path)
