"""Which columns need not pass through the JVM: in doubt, all that the user has."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.record.columns import RESERVED
from penstock.steps.select import Select
from penstock.worker.spill import RestoreColumns, Spill, SpillColumns, remove_left, spill_of

SCHEMA = pa.schema(
    [("price", pa.float64()), ("Land", pa.string()), ("note", pa.string()), ("a b", pa.string()), *RESERVED]
)


def waiting(*selects: str, conditions: tuple[str, ...] = ()) -> set[str]:
    spill = spill_of(SCHEMA, [Select(each) for each in selects], list(conditions))
    return {*spill.columns} - {*spill.read_by_sql, *RESERVED.names}


def copied(*selects: str) -> set[str]:
    return {*spill_of(SCHEMA, [Select(each) for each in selects], []).read_by_sql}


def test_what_a_star_lets_through_waits_unless_it_is_mentioned() -> None:
    assert {"Land", "note"} == waiting("SELECT *, price * 2 AS twice FROM events")
    assert {"Land", "note"} == waiting("SELECT events.*, price * 2 AS twice FROM events WHERE price > 1")


def test_names_are_mentioned_in_any_case_in_quotes_in_aliases_and_in_conditions() -> None:
    assert {"note"} == waiting("SELECT *, upper(LAND) AS big FROM events WHERE `price` > 1")
    assert {"price"} == waiting("SELECT *, 1 AS Note FROM events", conditions=("land = 'x'",))
    assert {"price", "Land"} == waiting(conditions=("note IS NOT NULL",))


def test_a_column_must_pass_every_select_on_the_way() -> None:
    assert {"note"} == waiting("SELECT *, price AS p FROM events", "SELECT *, land AS l FROM events")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT price FROM events",
        "SELECT *, struct(*) AS whole FROM events",
        "SELECT *, to_json(struct(price, *)) AS whole FROM events",
        "SELECT *, to_json(struct(events.*)) AS whole FROM events",
        "SELECT *, to_json(struct(* EXCEPT (price))) AS whole FROM events",
        "SELECT *, to_json(struct(* EXCEPT (price.cents))) AS whole FROM events",
        "SELECT * EXCEPT (note) FROM events",
        "SELECT *, * FROM events",
    ],
)
def test_none_of_the_users_columns_waits_where_a_star_is_more_than_a_star(sql: str) -> None:
    assert set() == waiting(sql)


def test_columns_of_penstock_wait_unless_they_are_mentioned_and_the_error_never_does() -> None:
    spill = spill_of(SCHEMA, [Select("SELECT price, _offset AS o FROM events")], ["_KEY IS NOT NULL"])

    assert set(RESERVED.names) - {"_error"} == {*spill.columns}
    assert {"_offset", "_key"} == {*spill.read_by_sql}


def test_a_column_that_sql_mentions_and_lets_through_goes_to_the_jvm_as_a_copy() -> None:
    spill = spill_of(SCHEMA, [Select("SELECT *, price * 2 AS twice, 1 AS land FROM events")], [])

    assert {"price"} == {*spill.read_by_sql}
    assert {"price", "note"} == {*spill.columns} - {*RESERVED.names}
    assert ["price", "Land", "a b", "_error", "_row"] == spill.passing(SCHEMA).names


def test_a_column_that_comes_out_otherwise_is_no_copy() -> None:
    assert set() == copied("SELECT price FROM events")
    assert set() == copied("SELECT *, 1 AS Price FROM events")
    assert set() == copied("SELECT *, price AS p FROM events", "SELECT p AS price FROM events")
    assert {"price"} == copied("SELECT *, price AS p FROM events", "SELECT *, p AS q FROM events")


def test_columns_that_only_their_case_tells_apart_all_pass() -> None:
    schema = pa.schema([("price", pa.float64()), ("PRICE", pa.float64()), *RESERVED])
    spill = spill_of(schema, [Select("SELECT *, 1 AS one FROM events")], [])

    assert ["price", "PRICE", "_error", "_row"] == spill.passing(schema).names


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"price": float(number)} for number in numbers], SCHEMA)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_only_the_owner_can_read_what_waits_and_it_has_no_name_once_it_is_read(temporary: Path) -> None:
    way = Spill(("note",))
    before = os.umask(0)
    try:
        passing = SpillColumns(way, SCHEMA)(iter([rows(1, 2)]), 0)
        first = next(passing)
    finally:
        os.umask(before)
    (file,) = temporary.iterdir()
    mode = file.stat().st_mode & 0o777
    list(passing)
    (whole,) = RestoreColumns(way, SCHEMA)(iter([first]), 0)

    assert 0o600 == mode
    assert [1.0, 2.0] == whole.column("price").to_pylist()
    assert [] == list(temporary.iterdir())


@pytest.mark.usefixtures("temporary")
def test_what_the_jvm_got_a_copy_of_is_put_back_from_what_waits() -> None:
    way = Spill(("price", "note"), ("price",))

    (sent,) = SpillColumns(way, SCHEMA)(iter([rows(1, 2)]), 0)
    changed = sent.drop_columns(["price"])
    (whole,) = RestoreColumns(way, SCHEMA)(iter([changed]), 0)

    assert [1.0, 2.0] == sent.column("price").to_pylist()
    assert rows(1, 2).equals(whole)


def test_a_task_that_fails_leaves_nothing_in_the_temporary_folder(temporary: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield rows(1)
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        list(SpillColumns(Spill(("note",)), SCHEMA)(failing(), 0))
    given_up = SpillColumns(Spill(("note",)), SCHEMA)(iter([rows(1), rows(2)]), 0)
    next(given_up)
    given_up.close()  # type: ignore[attr-defined]

    assert [] == list(temporary.iterdir())


def test_what_killed_workers_have_left_goes_and_what_live_ones_wait_for_stays(temporary: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = temporary / f"penstock-spill-{'0' * 32}-7-{gone.pid}-a_b1c2d3.arrow"
    awaited = temporary / f"penstock-spill-{'0' * 32}-7-{os.getpid()}-a_b1c2d3.arrow"
    other = temporary / f"penstock-spill-notes-{gone.pid}.arrow"
    for file in (left, awaited, other):
        file.touch()

    remove_left()

    assert sorted([awaited, other]) == sorted(temporary.iterdir())


def test_files_that_others_put_into_the_shared_folder_are_none_of_ours(temporary: Path) -> None:
    odd = temporary / f"penstock-spill-{'0' * 32}-1-99999999999-x.arrow"
    odd.touch()
    spill = Spill(columns=("_value",))
    file, made = spill.create()
    file.close()
    stem = made.name.rpartition("-")[0]
    (temporary / f"{stem}-link.arrow").symlink_to(made)
    (temporary / f"{stem}-gone.arrow").symlink_to("nothing")
    if os.geteuid() == 0:
        planted, pipe = temporary / f"{stem}-planted.arrow", temporary / f"{stem}-pipe.arrow"
        planted.touch()
        os.mkfifo(pipe)
        for path in (planted, pipe):
            os.chown(path, 65534, 65534)
    found, path = spill.open()
    found.close()

    remove_left()

    assert made == path
    assert odd.exists()


def test_names_that_come_and_go_do_not_hide_the_file(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spill = Spill(columns=("_value",))
    file, made = spill.create()
    file.close()
    gone = made.with_name(f"{made.name.rpartition('-')[0]}-gone.arrow")
    monkeypatch.setattr(Path, "glob", lambda _folder, _pattern: iter([gone, made]))

    found, path = spill.open()
    found.close()

    assert (temporary, made) == (made.parent, path)


def test_a_file_that_nobody_came_for_makes_room_for_the_next_of_the_same_attempt(temporary: Path) -> None:
    spill = Spill(columns=("_value",))
    spill.create()[0].close()
    file, made = spill.create()
    file.close()

    assert [made] == list(temporary.iterdir())
