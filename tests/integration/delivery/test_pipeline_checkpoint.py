"""A checkpoint that is lost, damaged, old or shared: noticed, and never a reason to skip or double an event."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable, write_deltalake

from penstock.driver.paths import PipelinePaths, Progress
from penstock.errors import BrokerUnavailable, CheckpointLost, Conflict, PositionLost, PositionsMoved
from penstock.kafka import groups
from penstock.operate import repair

from conftest import Cli
from support.iceberg_driver import loaded
from support.iceberg_tables import iceberg_rows
from support.pipelines import Lab, drive, dying


def test_a_lost_or_damaged_checkpoint_is_an_error_and_its_rebuilding_doubles_nothing(lab: Lab) -> None:
    topic = lab.kafka.topic("lost", partitions=2)
    spec = lab.spec(topic)
    folder = lab.home(topic).checkpoint
    committed = folder / "committed.json"
    damages: list[Callable[[], object]] = [
        lambda: shutil.rmtree(folder),
        (folder / "metadata.json").unlink,
        lambda: committed.write_bytes(committed.read_bytes()[:-9]),
        committed.unlink,
    ]
    lab.send_ids(topic, range(5))
    lab.run(spec)

    for number, damage in enumerate(damages):
        lab.send_ids(topic, [10 + number], partition=number % 2)
        lab.send(topic, b"poison")
        damage()
        with (
            pytest.raises(CheckpointLost, match=f"penstock pipeline rebuild {topic}"),
            lab.runner(spec) as lost,
        ):
            lost.begin()
        with lab.runner(spec) as runner:
            found = repair.rebuild(runner)
        assert {"delta", "dead"} == found.keys()
    lab.run(spec)

    assert [0, 1, 2, 3, 4, 10, 11, 12, 13] == lab.ids()
    assert 4 == len(lab.letters(topic))


@pytest.mark.parametrize("point", ["checkpoint_cleared", "checkpoint_begun"])
@pytest.mark.parametrize("lost", ["checkpoint", "checkpoint/committed.json", "checkpoint/metadata.json"])
def test_a_rebuild_that_dies_half_way_is_run_again_and_doubles_nothing(lab: Lab, point: str, lost: str) -> None:
    topic = lab.kafka.topic("half-rebuilt")
    spec = lab.spec(topic)
    lab.send_ids(topic, range(5))
    lab.send(topic, b"poison")
    lab.run(spec)
    gone = lab.home(topic).folder / lost
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    lab.send_ids(topic, range(5, 8))

    with dying(point), lab.runner(spec) as runner:
        repair.rebuild(runner)
    with lab.runner(spec) as runner:
        found = repair.rebuild(runner)
    lab.run(spec)

    assert [[6], [6]] == [list(source_partitions.values()) for source_partitions in found.values()]
    assert list(range(8)) == lab.ids()
    assert 1 == len(lab.letters(topic))


def test_the_command_line_tells_of_a_lost_checkpoint_with_exit_9_and_the_way_out(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("commands")
    file = lab.folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(lab.document(topic)))
    lab.send_ids(topic, range(5))
    lab.run(lab.spec(topic))
    shutil.rmtree(lab.home(topic).checkpoint)
    lab.send_ids(topic, range(5, 8))

    refused = cli("pipeline", "run", file, home=lab.kafka.home)

    assert 9 == refused.code
    assert f"penstock pipeline rebuild {topic}" in refused.err
    assert list(range(5)) == lab.ids()


def test_an_old_copy_of_the_checkpoint_doubles_nothing(lab: Lab) -> None:
    topic = lab.kafka.topic("restored")
    spec = lab.spec(
        topic, sinks=[{"type": "delta", "path": str(lab.table)}, {"type": "json", "path": str(lab.folder / "json")}]
    )
    folder = lab.home(topic).checkpoint
    lab.send_ids(topic, range(3))
    lab.run(spec)
    shutil.copytree(folder, lab.folder / "copy")
    lab.send_ids(topic, range(3, 6))
    lab.send(topic, b"poison")
    lab.run(spec)

    shutil.rmtree(folder)
    shutil.copytree(lab.folder / "copy", folder)
    lab.send_ids(topic, range(6, 9))
    reports = lab.run(spec)

    assert 3 == sum(report.read for report in reports)
    assert list(range(9)) == lab.ids()
    assert 1 == len(lab.letters(topic))


def test_a_table_that_was_deleted_is_noticed_and_can_be_filled_again(lab: Lab) -> None:
    topic = lab.kafka.topic("dropped")
    other = lab.folder / "other"
    sinks = [{"type": "delta", "path": str(lab.table)}, {"type": "delta", "name": "other", "path": str(other)}]
    spec = lab.spec(topic, sinks=sinks)
    lab.send_ids(topic, range(3))
    lab.send(topic, b"poison")
    lab.run(spec)
    shutil.rmtree(lab.table)
    lab.send_ids(topic, range(3, 5))

    for _ in range(2):
        with pytest.raises(PositionLost, match=rf"sink 'delta' had everything of {topic}/0 before offset 4"):
            lab.run(spec)
    with lab.runner(spec) as runner:
        repair.rebuild(runner)
    lab.run(spec)

    assert list(range(5)) == lab.ids()
    assert list(range(5)) == lab.ids(other)
    assert 1 == len(lab.letters(topic))


def _copy_delta(path: Path) -> None:
    rows = DeltaTable(str(path)).to_pyarrow_table()
    shutil.rmtree(path)
    write_deltalake(str(path), rows)


def _copy_iceberg(path: Path) -> None:
    table = loaded(path)
    rows, catalog = table.scan().to_arrow(), table.catalog
    catalog.drop_table(table.name())
    catalog.create_table(table.name(), table.schema(), location=table.location()).append(rows)


@pytest.mark.parametrize(("kind", "copy"), [("delta", _copy_delta), ("iceberg", _copy_iceberg)])
def test_a_copy_of_a_table_in_its_place_is_not_filled_with_the_same_rows_again(
    lab: Lab, kind: str, copy: Callable[[Path], None]
) -> None:
    topic = lab.kafka.topic("copied", partitions=2)
    path = lab.folder / "tables" / "orders"
    spec = lab.spec(topic, sinks=[{"type": kind, "path": str(path)}])
    lab.send_ids(topic, range(3))
    lab.send_ids(topic, range(3, 5), partition=1)
    lab.run(spec)

    def ids() -> list[int]:
        rows = lab.rows(path) if kind == "delta" else iceberg_rows(path)
        return sorted(row["id"] for row in rows)

    copy(path)
    with pytest.raises(PositionLost, match=f"penstock pipeline rebuild {topic}"):
        lab.run(spec)
    with lab.runner(spec) as runner, pytest.raises(Conflict, match=f"no position at {topic}/0, and rows of it"):
        repair.rebuild(runner)
    assert list(range(5)) == ids()

    with lab.runner(spec) as runner:
        repair.rebuild(runner, may_repeat=True)
    lab.run(spec)
    assert sorted([*range(5), *range(5)]) == ids()


def test_a_table_that_was_restored_to_an_older_version_gets_what_it_lacks_and_another_sink_nothing_twice(
    lab: Lab,
) -> None:
    topic = lab.kafka.topic("restored", partitions=2)
    other = lab.folder / "other"
    sinks = [{"type": "delta", "path": str(lab.table)}, {"type": "delta", "name": "other", "path": str(other)}]
    spec = lab.spec(topic, sinks=sinks)
    lab.send_ids(topic, range(3))
    lab.run(spec)
    older = DeltaTable(str(lab.table)).version()
    lab.send_ids(topic, range(3, 5), partition=1)
    lab.send(topic, b"poison")
    lab.run(spec)
    newer = DeltaTable(str(lab.table)).version()
    lab.send_ids(topic, range(5, 8), partition=1)
    lab.run(spec)

    DeltaTable(str(lab.table)).restore(newer)
    lab.run(spec)
    again = lab.ids()
    DeltaTable(str(lab.table)).restore(older)
    with pytest.raises(PositionLost, match=rf"sink 'delta' had everything of {topic}/1 before offset 5"):
        lab.run(spec)
    with lab.runner(spec) as runner:
        repair.rebuild(runner)
    lab.run(spec)

    assert list(range(8)) == again
    assert (list(range(8)), list(range(8))) == (lab.ids(), lab.ids(other))
    assert 1 == len(lab.letters(topic))


def test_a_second_driver_is_refused_while_the_first_holds_the_lock(lab: Lab) -> None:
    topic = lab.kafka.topic("locked")
    spec = lab.spec(topic)
    lab.send_ids(topic, range(3))

    with lab.runner(spec) as first:
        with pytest.raises(Conflict, match=f"pipeline '{topic}' is running already"):
            lab.run(spec)
        drive(first)

    assert [0, 1, 2] == lab.ids()


@pytest.mark.parametrize("is_cut_off_first", [False, True])
def test_a_driver_that_was_overtaken_from_another_home_stops_and_nothing_is_doubled(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, *, is_cut_off_first: bool
) -> None:
    topic = lab.kafka.topic("overtaken")
    spec = lab.spec(topic, batch={"max_events": 2})
    lab.send_ids(topic, range(3))
    lab.run(spec)
    elsewhere = PipelinePaths(lab.folder / "elsewhere")
    shutil.copytree(lab.home(topic).folder, elsewhere.folder)
    lab.send_ids(topic, range(3, 9))

    def overtake(progress: Progress) -> None:
        if progress.waiting_for:
            return
        with lab.runner(spec, elsewhere) as other:
            other.run(lambda _progress: other.stopping.set())
        if is_cut_off_first:
            monkeypatch.setattr(stale.source, "available", cut_off)

    def cut_off() -> None:
        monkeypatch.undo()
        raise BrokerUnavailable("away for a moment")

    with lab.runner(spec) as stale, pytest.raises(PositionsMoved, match="another driver"):
        stale.run(overtake)
    after_refusal = lab.ids()
    lab.run(spec, elsewhere)

    assert list(range(7)) == after_refusal
    assert list(range(9)) == lab.ids()


def test_an_older_driver_that_still_commits_a_batch_to_its_sink_ends_and_the_newer_one_goes_on(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = lab.kafka.topic("late")
    spec = lab.spec(topic, batch={"max_events": 3})
    lab.send_ids(topic, range(3))
    lab.run(spec)
    elsewhere = PipelinePaths(lab.folder / "elsewhere")
    shutil.copytree(lab.home(topic).folder, elsewhere.folder)
    lab.send_ids(topic, range(3, 9))
    lab.send(topic, b"poison")

    with lab.runner(spec) as older, lab.runner(spec, elsewhere) as newer:
        committed_late, commit = older.sinks[0].commit, newer.sinks[0].commit

        def stand_between_dead_letters_and_sink() -> None:
            monkeypatch.setattr(older.sinks[0], "commit", committed_late)
            drive(newer)

        def be_overtaken() -> None:
            monkeypatch.setattr(newer.sinks[0], "commit", commit)
            committed_late()
            commit()

        monkeypatch.setattr(older.sinks[0], "commit", stand_between_dead_letters_and_sink)
        monkeypatch.setattr(newer.sinks[0], "commit", be_overtaken)
        with pytest.raises(PositionsMoved):
            older.run(lambda _progress: None)

    assert list(range(9)) == lab.ids()
    assert 1 == len(lab.letters(topic))


def test_a_driver_that_finds_everything_done_by_another_ends_well(lab: Lab) -> None:
    topic = lab.kafka.topic("outrun")
    spec = lab.spec(topic)
    lab.send_ids(topic, range(3))
    lab.run(spec)
    elsewhere = PipelinePaths(lab.folder / "elsewhere")
    shutil.copytree(lab.home(topic).folder, elsewhere.folder)

    with lab.runner(spec) as late:
        lab.send_ids(topic, range(3, 6))
        lab.run(spec, elsewhere)
        reports = drive(late)

    assert [] == reports
    assert list(range(6)) == lab.ids()


def test_a_pipeline_that_ran_elsewhere_is_not_begun_again_from_an_empty_home(lab: Lab) -> None:
    topic = lab.kafka.topic("moved")
    console = lab.spec(topic, sinks=[{"type": "console"}])
    lab.send_ids(topic, range(3))
    lab.run(console)

    with pytest.raises(CheckpointLost, match="there is none"):
        lab.run(console, PipelinePaths(lab.folder / "empty"))


def test_a_pipeline_that_began_at_the_end_and_lost_its_checkpoint_skips_nothing(lab: Lab) -> None:
    topic = lab.kafka.topic("latest", partitions=3)
    spec = lab.spec(topic, source={"type": "kafka", "topics": [topic], "start": "latest"})
    lab.send_ids(topic, range(3), partition=1)
    lab.run(spec)
    lab.send_ids(topic, range(3, 6), partition=0)
    lab.run(spec)
    lab.send_ids(topic, range(6, 9), partition=1)

    shutil.rmtree(lab.home(topic).checkpoint)
    with lab.runner(spec) as runner:
        repair.rebuild(runner)
    lab.run(spec)
    assert list(range(3, 9)) == lab.ids()

    # Once Kafka has forgotten where it began, too, `latest` would be behind what has come to a partition since.
    shutil.rmtree(lab.home(topic).checkpoint)
    groups.delete(lab.kafka.admin(), f"penstock.{topic}")
    lab.send_ids(topic, range(9, 12), partition=2)
    with lab.runner(spec) as runner, pytest.raises(Conflict, match=rf"began at {topic}/2 .*`start: earliest`"):
        repair.rebuild(runner)
    with lab.runner(lab.spec(topic)) as runner:
        repair.rebuild(runner)
    lab.run(spec)

    assert list(range(3, 12)) == lab.ids()
