"""A range of the past, once more: beside the live pipeline, elsewhere or over the same rows, each record once."""

import shutil
import threading
from typing import Any

import pytest

from penstock.config import settings
from penstock.errors import BadInput, NotFound
from penstock.kafka import groups, topics
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.operate import range_replay, repair
from penstock.operate.status import Status

from conftest import Cli
from support.pipelines import Lab, drive, dying, total
from support.range_replays import (
    BEGAN_MS,
    NEW,
    OLD,
    begin,
    go_on,
    moment,
    named,
    open_letters,
    progress,
    send_timed,
    write,
)
from support.waiting import until


def test_a_range_of_a_live_stream_is_replaced_by_time_while_the_stream_goes_on(lab: Lab) -> None:
    topic = lab.kafka.topic("replay-live", partitions=2)
    for partition in range(2):
        send_timed(lab, topic, range(100 * partition, 100 * partition + 30), partition, BEGAN_MS)
    live = lab.spec(topic, steps=[{"sql": OLD}], speed="stream", batch={"max_wait": "50ms"})
    changed = write(lab, lab.document(topic, steps=[{"sql": NEW}], speed="stream", batch={"max_events": 10}))
    came: list[int] = []

    def meanwhile(_status: Status) -> None:
        """After each batch of the replay, let the live stream land something."""
        came.append(1000 + 10 * len(came))
        lab.send_ids(topic, came[-1:], partition=len(came) % 2)
        until(lambda: came[-1] in lab.ids())

    with lab.runner(live) as runner:
        reports: list[Any] = []
        running = threading.Thread(target=lambda: reports.extend(drive(runner)))
        running.start()
        until(lambda: len(lab.rows()) == 54)
        failed_first = open_letters(lab, topic)
        begun = begin(lab, changed, moment(10), moment(20))
        status = go_on(lab, begun, meanwhile)
        runner.stopping.set()
        running.join(240)
    failed_then = open_letters(lab, topic)
    again = go_on(lab, begun)

    outside = [(partition, number) for partition in range(2) for number in range(30) if not 10 <= number < 20]
    inside = [(partition, number) for partition in range(2) for number in range(10, 20)]
    late = [(number % 2, 30 + (number - 1) // 2) for number in range(1, len(came) + 1)]
    old = {each: ["old"] for each in [*outside, *late] if each[1] not in {3, 23}}
    new = {each: ["new"] for each in inside if each != (1, 13)}
    assert old | new == named(lab)
    assert [(partition, number) for partition in range(2) for number in (3, 13, 23)] == failed_first
    assert [each for each in failed_first if each != (0, 13)] == failed_then == open_letters(lab, topic)
    assert (20, 2) == (begun.range.count, len(came))
    assert (20, 19, 1, 0) == tuple(
        getattr(status.sinks["delta"], each) for each in ("read", "written", "dead", "dropped")
    )
    assert ("finished", 0) == (again.state, again.events)
    assert 60 + len(came) == total(reports).read
    assert 0 == groups.describe(lab.kafka.admin(), f"penstock.{topic}").lag
    assert [] == lab.run(lab.spec(topic, steps=[{"sql": OLD}]))


def test_a_replay_into_another_table_that_was_given_up_half_way_goes_on_and_the_pipeline_notices_nothing(
    lab: Lab,
) -> None:
    first, second = lab.kafka.topic("replay-into"), lab.kafka.topic("replay-into")
    for topic in (first, second):
        lab.send_ids(topic, range(10))
        lab.send(topic, b"malformed", {"id": 11, "name": "n11"})
    source = {"topics": [first, second]}
    lab.run(lab.spec(first, source=source))
    other = lab.folder / "other"
    file = write(lab, lab.document(first, source=source, steps=[{"sql": NEW}], batch={"max_events": 5}))
    before, rows, failed = progress(lab, first), lab.rows(), open_letters(lab, first)
    begun = begin(lab, file, "2", "12", {"delta": str(other)})

    def give_up(_status: Status) -> None:
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            go_on(lab, begun, give_up)
    half = len(lab.rows(other))
    status = go_on(lab, begun)

    assert 0 < half < 18
    landed = [2, 3, 4, 5, 6, 7, 8, 9, 11]
    ids = {topics.describe(lab.kafka.admin(), topic).topic_id for topic in (first, second)}
    assert dict.fromkeys(ids, landed) == {
        topic_id: [row["id"] for row in lab.rows(other) if row["_topic_id"] == topic_id] for topic_id in ids
    }
    assert {"new"} == {row["name"] for row in lab.rows(other)}
    assert (20, "finished") == (begun.range.count, status.state)
    assert rows == lab.rows()
    assert before == progress(lab, first)
    assert [(0, 10), (0, 10)] == failed == open_letters(lab, first)
    # What fails on its way elsewhere is no letter of the pipeline's own.
    assert [(0, 10), (0, 10)] == open_letters(lab, f"{first}.replay-{begun.range.id}")


def test_a_replay_that_is_killed_between_its_dead_letters_and_its_rows_lands_each_record_once(
    lab: Lab, cli: Cli
) -> None:
    topic = lab.kafka.topic("replay-killed")
    lab.send_ids(topic, range(100, 120))
    lab.run(lab.spec(topic, steps=[{"sql": OLD}]))
    file = write(lab, lab.document(topic, steps=[{"sql": NEW}], batch={"max_events": 6}))

    killed = cli(
        *("pipeline", "replay", file, "--from", "5", "--to", "18", "--replace", "--master", "local[1,4]"),
        home=lab.kafka.home,
        PENSTOCK_CRASH_AT="sink_committed:dead",
        PENSTOCK_CRASH_AFTER="1",
    )
    half = named(lab)
    (folder,) = (lab.home(topic).folder / "replays").iterdir()
    status = go_on(lab, range_replay.find(settings.load(home=lab.kafka.home), topic, folder.name))

    assert -9 == killed.code, killed.err
    assert f"replay {folder.name}: 13 offsets" in killed.err
    assert (["new"], ["old"]) == (half[0, 10], half[0, 11])
    assert {
        (0, number): ["new" if 5 <= number < 18 else "old"]
        for number in range(20)
        if number not in {3, 13}
    } == named(lab)  # fmt: skip
    assert [(0, 3), (0, 13)] == open_letters(lab, topic)
    assert (7, "finished") == (status.events, status.state)


def test_in_postgres_rows_of_the_range_are_replaced_and_never_newer_ones(lab: Lab, postgres: RunningPostgres) -> None:
    topic = lab.kafka.topic("replay-postgres", partitions=2)
    server = postgres.database()
    login = {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}
    sinks = [
        {"type": "postgres", "name": "all", "table": "landed", "server": {**login}},
        {"type": "postgres", "name": "newest", "table": "kept", "mode": "upsert", "key": ["id"], "server": login},
    ]
    # Of the ids 14 to 19 in the range, 14 and 15 come again in their partition, and 17 later in another one.
    send_timed(lab, topic, range(10, 20), 0, BEGAN_MS)
    send_timed(lab, topic, range(10, 16), 0, BEGAN_MS + 100_000)
    lab.run(lab.spec(topic, sinks=sinks, steps=[{"sql": OLD}]))
    send_timed(lab, topic, range(17, 18), 1, BEGAN_MS + 200_000)
    lab.run(lab.spec(topic, sinks=sinks, steps=[{"sql": OLD}]))
    changed = lab.document(topic, sinks=sinks, steps=[{"sql": f"{NEW} WHERE id <> 19"}], batch={"max_events": 3})
    file = write(lab, changed)

    def ask(query: str) -> list[Any]:
        with postgres.connect(server.database) as connection:
            return connection.execute(query).fetchall()

    positions = "SELECT * FROM penstock_positions WHERE topic_id NOT LIKE 'range-%' ORDER BY sink, partition"
    stages = "SELECT relname FROM pg_class WHERE relname LIKE 'penstock_stage%' AND relkind = 'r' ORDER BY relname"
    before, staging_before = ask(positions), ask(stages)
    go_on(lab, begin(lab, file, moment(4), moment(10)))
    go_on(lab, begin(lab, file, moment(4), moment(10), {"all": "elsewhere"}))

    replaced = [(0, number, "new") for number in range(4, 9)]
    untouched = [(0, number, "old") for number in (0, 1, 2, *range(10, 13), 14, 15)]
    assert sorted([*replaced, *untouched, (1, 0, "old")]) == sorted(ask("SELECT _partition, _offset, name FROM landed"))
    newest = {10: "old", 11: "old", 12: "old", 14: "old", 15: "old", 16: "new", 17: "old", 18: "new"}
    assert newest == dict(ask("SELECT id, name FROM kept"))
    assert (1, 0) == ask("SELECT _partition, _offset FROM kept WHERE id = 17")[0]
    assert replaced == sorted(ask("SELECT _partition, _offset, name FROM elsewhere"))
    assert before == ask(positions)
    assert staging_before == ask(stages)
    assert [] == lab.run(lab.spec(topic, sinks=sinks, steps=[{"sql": OLD}]))


@pytest.mark.parametrize(
    "point",
    [
        "planned",
        "prepared",
        "sink_committed:dead",
        "in_commit:all",
        "sink_committed:all",
        "in_commit:newest",
        "sink_committed:newest",
        "committed",
    ],
)
def test_in_postgres_a_range_that_is_killed_half_way_is_replaced_once(
    lab: Lab, postgres: RunningPostgres, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    topic, server = lab.kafka.topic("replay-postgres-killed"), postgres.database()
    login = {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}
    sinks = [
        {"type": "postgres", "name": "all", "table": "landed", "server": {**login}},
        {"type": "postgres", "name": "newest", "table": "kept", "mode": "upsert", "key": ["id"], "server": login},
    ]
    lab.send_ids(topic, [*range(10), *range(3)])
    lab.run(lab.spec(topic, sinks=sinks, steps=[{"sql": OLD}]))
    file = write(lab, lab.document(topic, sinks=sinks, steps=[{"sql": NEW}], batch={"max_events": 3}))
    begun = begin(lab, file, "1", "8")

    monkeypatch.setenv("PENSTOCK_CRASH_AFTER", "1")  # in the second batch
    with dying(point):
        go_on(lab, begun)
    monkeypatch.delenv("PENSTOCK_CRASH_AFTER")
    go_on(lab, begun)

    with postgres.connect(server.database) as connection:
        landed = connection.execute("SELECT _offset, id, name FROM landed ORDER BY _offset").fetchall()
        newest = connection.execute("SELECT id, name, _offset FROM kept ORDER BY id").fetchall()
    named_now = ["new" if 1 <= offset < 8 else "old" for offset in range(13)]
    assert [(offset, offset % 10, name) for offset, name in enumerate(named_now)] == landed
    offsets = [*range(10, 13), *range(3, 10)]
    assert [(offset % 10, named_now[offset], offset) for offset in offsets] == newest
    assert [] == open_letters(lab, topic)


def test_what_the_pipeline_has_not_landed_yet_is_left_to_it(lab: Lab) -> None:
    topic = lab.kafka.topic("replay-ahead")
    file = write(lab, lab.document(topic, steps=[{"sql": NEW}]))
    lab.send_ids(topic, range(20, 23))
    with pytest.raises(BadInput, match="has landed nothing of this range"):
        begin(lab, file, "earliest", "latest")
    lab.run(lab.spec(topic, steps=[{"sql": OLD}]))
    lab.send_ids(topic, range(24, 27))

    begun = begin(lab, file, "1", "latest")
    go_on(lab, begun)
    lab.run(lab.spec(topic, steps=[{"sql": OLD}]))

    assert 2 == begun.range.count
    assert ["old", "new", "new", "old", "old", "old"] == [row["name"] for row in lab.rows()]


@pytest.mark.parametrize("into", [None, "other"])
def test_a_range_passes_over_records_that_were_given_up(lab: Lab, into: str | None) -> None:
    topic = lab.kafka.topic("replay-skipped")
    lab.send_ids(topic, range(3))
    lab.run(lab.spec(topic))
    lab.send_ids(topic, range(3, 6))
    repair.skip(lab.spec(topic), lab.connection, lab.home(topic), f"{topic}:0:4", "no hero")
    lab.run(lab.spec(topic))
    file = write(lab, lab.document(topic, steps=[{"sql": NEW}]))

    go_on(lab, begin(lab, file, "1", "latest", {"delta": str(lab.folder / into)} if into else None))

    assert [0, 1, 2, 3, 5] == lab.ids()
    assert [1, 2, 3, 5] == [row["id"] for row in lab.rows(lab.folder / (into or "table")) if row["name"] == "new"]


def test_a_range_whose_folder_was_lost_goes_on_by_its_id_and_file(lab: Lab) -> None:
    topic = lab.kafka.topic("replay-lost")
    lab.send_ids(topic, range(100, 120))
    lab.run(lab.spec(topic, steps=[{"sql": OLD}]))
    file = write(lab, lab.document(topic, steps=[{"sql": NEW}], batch={"max_events": 6}))
    begun = begin(lab, file, "0", "18")

    def give_up(_status: Status) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go_on(lab, begun, give_up)
    shutil.rmtree(lab.home(topic).replay(begun.range.id).folder)
    given = settings.load(home=lab.kafka.home)
    with pytest.raises(NotFound):
        range_replay.find(given, f"not-{topic}", begun.range.id, file)
    found = range_replay.find(given, topic, begun.range.id, file)
    status = range_replay.run(given, found, show=lambda _status: None)

    assert begun.range == found.range
    assert (12, "finished") == (status.events, status.state)
    assert {(0, number): ["new" if number < 18 else "old"] for number in range(20) if number != 13} == named(lab)
    assert [(0, 13)] == open_letters(lab, topic)
