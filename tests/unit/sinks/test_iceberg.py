"""The Iceberg sink, read back by DuckDB: commits, positions, and a table that others change."""

import datetime
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import Conflict, PenstockError, PositionLost, PositionsMoved, SinkUnavailable
from penstock.record.positions import SourcePartition
from penstock.sinks import iceberg_commit
from penstock.sinks.iceberg_catalog import Catalog, open_catalog
from penstock.sinks.iceberg_positions import PROPERTY
from penstock.sinks.sink import Recovery

from support.iceberg_driver import SCHEMA, A, B, Driver, loaded
from support.iceberg_tables import iceberg_rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tables" / "orders"


def ids(path: Path) -> list[int]:
    return sorted(row["id"] for row in iceberg_rows(path))


def files(path: Path) -> list[str]:
    """Return the names of data files and manifests, whoever names them or nobody."""
    return sorted(each.name for each in [*path.glob("data/*"), *path.glob("metadata/*.avro")])


def expire_all_but_the_newest(path: Path) -> None:
    table = loaded(path)
    newest = table.metadata.current_snapshot_id
    expired = [each.snapshot_id for each in table.snapshots() if each.snapshot_id != newest]
    table.maintenance.expire_snapshots().by_ids(expired).commit()


def append_as_others_do(path: Path, *ids: int) -> None:
    loaded(path).append(pa.table({"id": ids, "text": [None] * len(ids)}, SCHEMA))


def roll_back(path: Path, snapshot_id: int) -> None:
    loaded(path).manage_snapshots().rollback_to_snapshot(snapshot_id).commit()


def test_rows_and_positions_are_in_one_snapshot(path: Path) -> None:
    driver = Driver(path)
    driver.write(1, 2)
    driver.write(3, partition=B)

    assert [1, 2, 3] == ids(path)
    assert {A: 2, B: 1} == driver.positions == Driver(path).positions
    assert 2 == len(loaded(path).snapshots())


def test_two_writers_of_one_snapshot_cannot_both_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older, newer = Driver(path), Driver(path)
    older.prepare(A, [{"id": 1, "text": "older"}])
    commit = iceberg_commit.Change.commit

    def overtaken(change: Any) -> Any:
        monkeypatch.setattr(iceberg_commit.Change, "commit", commit)
        monkeypatch.setattr("penstock.sinks.delta_table.locked", lambda _path: open("/dev/null"))  # noqa: PTH123, SIM115
        newer.write(1)
        return commit(change)

    monkeypatch.setattr(iceberg_commit.Change, "commit", overtaken)
    with pytest.raises(PositionsMoved, match="another driver has written to sink 'iceberg'"):
        older.sink.commit()

    assert [1] == ids(path)
    assert 1 == len(list(path.glob("data/*")))


def test_a_commit_of_others_in_between_is_compared_with_and_then_written_upon(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(path)
    driver.prepare(A, [{"id": 1, "text": "ours"}])
    commit = iceberg_commit.Change.commit

    def overtaken(change: Any) -> Any:
        monkeypatch.setattr(iceberg_commit.Change, "commit", commit)
        append_as_others_do(path, 7)
        return commit(change)

    monkeypatch.setattr(iceberg_commit.Change, "commit", overtaken)
    driver.sink.commit()

    assert [1, 7] == ids(path)
    assert {A: 1} == driver.positions


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "started again"])
def test_what_a_table_lacks_that_was_rolled_back_is_written_again_once(path: Path, *, is_running: bool) -> None:
    driver = Driver(path)
    driver.write(1, 2)
    snapshot = loaded(path).metadata.current_snapshot_id
    driver.write(3)
    driver.write(4, partition=B)
    roll_back(path, snapshot)

    if not is_running:
        driver = Driver(path)
    found = driver.positions
    driver.write(3)

    assert {A: 2} == found
    assert [1, 2, 3] == ids(path)
    assert {A: 3} == driver.positions == Driver(path).positions


def test_expiring_snapshots_loses_no_position(path: Path) -> None:
    driver = Driver(path)
    driver.write(1)
    driver.write(2, partition=B)
    expire_all_but_the_newest(path)
    alone = driver.positions
    append_as_others_do(path, 7)
    expire_all_but_the_newest(path)
    below_one = driver.positions
    append_as_others_do(path, 8)
    append_as_others_do(path, 9)
    expire_all_but_the_newest(path)

    assert {A: 1, B: 1} == alone == below_one == driver.positions
    driver.write(2)
    assert [1, 2, 2, 7, 8, 9] == ids(path)


def test_a_rollback_shows_although_its_snapshots_were_expired(path: Path) -> None:
    driver = Driver(path)
    driver.write(1)
    snapshot = loaded(path).metadata.current_snapshot_id
    driver.write(2)
    roll_back(path, snapshot)
    append_as_others_do(path, 7)
    expire_all_but_the_newest(path)

    assert {A: 1} == driver.positions


def test_a_snapshot_of_ours_that_somebody_picks_after_a_rollback_is_not_written_twice(path: Path) -> None:
    driver = Driver(path)
    driver.write(1)
    snapshot = loaded(path).metadata.current_snapshot_id
    driver.write(2)
    driver.write(3)
    picked = loaded(path).metadata.current_snapshot_id
    roll_back(path, snapshot)
    again = pa.table({"id": [3], "text": ["text 3"]}, SCHEMA)
    loaded(path).append(again, snapshot_properties={"source-snapshot-id": str(picked)})

    with pytest.raises(PositionLost, match="what it holds is not known"):
        driver.write(2, 3)
    assert [1, 3] == ids(path)


def test_a_table_whose_metadata_do_not_reach_back_is_not_written_to(path: Path) -> None:
    driver = Driver(path)
    driver.write(1)
    for number in (7, 8):
        append_as_others_do(path, number)
    expire_all_but_the_newest(path)
    newest = Path(loaded(path).metadata_location.removeprefix("file://"))
    for each in path.glob("metadata/*.metadata.json"):
        if each != newest:
            each.unlink()

    with pytest.raises(PositionLost, match=r"what it holds is not known. Nothing was written") as caught:
        driver.write(2)
    assert 9 == caught.value.exit_code
    assert [1, 7, 8] == ids(path)


def test_positions_of_other_pipelines_are_carried_on(path: Path) -> None:
    Driver(path, pipeline="other").write(1)
    Driver(path).write(2)

    assert {A: 1} == Driver(path, pipeline="other").positions
    assert "other/iceberg/Ab-_9" in loaded(path).properties[PROPERTY]


def dropped(path: Path) -> None:
    shutil.rmtree(path)


def recreated(path: Path) -> None:
    dropped(path)
    Driver(path).sink.close()


def replaced_in_the_catalog(path: Path) -> None:
    catalog = open_catalog(Catalog(), path)
    catalog.drop_table(f"default.{path.name}")
    catalog.create_table(f"default.{path.name}", SCHEMA, location=f"file://{path}")


@pytest.mark.parametrize("lose", [dropped, recreated, replaced_in_the_catalog])
def test_a_table_that_is_dropped_or_replaced_while_it_is_written_to_is_noticed(path: Path, lose: Any) -> None:
    driver = Driver(path)
    driver.write(1)
    driver.prepare(A, [{"id": 2, "text": ""}])
    lose(path)

    with pytest.raises(PenstockError) as caught:
        driver.sink.commit()
    with pytest.raises(PositionLost, match="was dropped or replaced while the pipeline ran"):
        driver.positions.clear()
    assert caught.value.exit_code in {4, 9}
    assert [] == ids(path)


def test_files_of_a_commit_whose_outcome_is_unknown_go_after_a_later_commit(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(path)
    driver.write(1)
    before = files(path)
    with monkeypatch.context() as broken:
        broken.setattr(iceberg_commit.Change, "commit", unanswered)
        with pytest.raises(SinkUnavailable):
            driver.write(2)
    driver.sink.close()
    left = set(files(path)) - set(before)
    Driver(path).write(2)

    assert 3 == len(left)
    assert not left & set(files(path))
    assert [1, 2] == ids(path)


def test_files_of_a_commit_that_got_through_without_an_answer_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(path)
    commit = iceberg_commit.Change.commit
    with monkeypatch.context() as broken:
        broken.setattr(iceberg_commit.Change, "commit", lambda change: [commit(change), unanswered(change)])
        with pytest.raises(SinkUnavailable):
            driver.write(1)
    append_as_others_do(path, 7)
    expire_all_but_the_newest(path)
    driver.write(2)

    assert [1, 2, 7] == ids(path)
    assert [] == list(path.glob(".staging/*/offered.json"))


def unanswered(_change: Any) -> Any:
    raise SinkUnavailable("the catalog does not answer")


def test_every_type_that_a_pipeline_can_make_comes_back(path: Path) -> None:
    rows = [
        {
            "small": 7,
            "price": Decimal("12.50"),
            "day": datetime.date(1969, 12, 31),
            "at": datetime.datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=datetime.UTC),
            "local": datetime.datetime(1960, 1, 1, 0, 0, 0, 5),  # noqa: DTZ001 - it has none
            "bytes": b"\xff",
            "ok": True,
            "half": 1.5,
            "list": [{"x": 1, "y": ["a", None]}, None],
            "map": [("k", 1), ("l", None)],
        },
        dict.fromkeys(["small", "price", "day", "at", "local", "bytes", "ok", "half", "list", "map"]),
    ]
    schema = pa.schema(
        [
            ("small", pa.int16()),
            ("price", pa.decimal128(10, 2)),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            ("local", pa.timestamp("us")),
            ("bytes", pa.binary()),
            ("ok", pa.bool_()),
            ("half", pa.float32()),
            ("list", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]))),
            ("map", pa.map_(pa.string(), pa.int64())),
        ]
    )
    Driver(path, schema).write_rows(rows)

    assert rows == iceberg_rows(path)


def test_old_snapshots_go_and_no_row_goes_with_them(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iceberg_commit, "_MOST_SNAPSHOTS", 3)
    driver = Driver(path)
    driver.write(0)
    loaded(path).manage_snapshots().create_tag(loaded(path).metadata.current_snapshot_id, "audit").commit()
    for number in range(1, 6):
        driver.write(number)

    assert [0, 1, 2, 3, 4, 5] == ids(path)
    assert {A: 6} == driver.positions
    assert 3 + 1 == len(loaded(path).snapshots())


def test_snapshots_that_somebody_expires_at_the_same_time_let_the_batch_run_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_commit, "_MOST_SNAPSHOTS", 2)
    driver = Driver(path)
    driver.write(1)
    driver.write(2)
    driver.prepare(A, [{"id": 3, "text": ""}])
    commit = iceberg_commit.Change.commit

    def overtaken(change: Any) -> Any:
        expire_all_but_the_newest(path)
        return commit(change)

    with monkeypatch.context() as busy:
        busy.setattr(iceberg_commit.Change, "commit", overtaken)
        with pytest.raises(SinkUnavailable, match="was changed meanwhile"):
            driver.sink.commit()
    driver.write(3)

    assert [1, 2, 3] == ids(path)
    assert 3 == len(list(path.glob("data/*")))


def test_a_copy_without_coordinates_is_not_filled_with_the_same_rows_again(path: Path) -> None:
    driver = Driver(path)
    driver.write(1, 2, 3)
    again = SourcePartition("orders", "recreated", 0)
    assert not driver.sink.recover([A, B])  # B has no record yet
    assert not driver.sink.recover([again])  # the topic was recreated
    table = loaded(path)
    rows, catalog = table.scan().to_arrow(), table.catalog
    catalog.drop_table(table.name())
    catalog.create_table(table.name(), table.schema(), location=table.location()).append(rows)
    copy = Driver(path).sink

    with pytest.raises(Conflict, match=r"has rows and no position of this pipeline.*rebuild combat --may-repeat"):
        copy.recover([A, B], Recovery({A: 3}))

    assert not copy.recover([A, B], Recovery(may_repeat=True))
    loaded(path).delete()
    assert not copy.recover([A, B])
