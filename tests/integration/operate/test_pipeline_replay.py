"""A range of the past, once more: beside the live pipeline, elsewhere or over the same rows, each record once."""

import datetime
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from penstock.config import settings
from penstock.delivery import gaps
from penstock.delivery.dead_letters import ENVELOPE, PREFIX, make_topics
from penstock.delivery.gaps import Gap
from penstock.delivery.selection import Filter, select
from penstock.errors import BadInput, Conflict, NotFound, RetentionPassed
from penstock.kafka import groups, topics
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.operate import range_replay, repair
from penstock.operate import replay as letter_replays
from penstock.operate.range_replay import RangeReplay
from penstock.operate.status import Status
from penstock.record.positions import SourcePartition
from penstock.sources.range import Part, Range

from conftest import Cli
from support.pipelines import Lab, drive, dying, total
from support.waiting import until

OLD = "SELECT id, CASE WHEN id % 10 = 3 THEN string(1 / (id - id)) ELSE 'old' END AS name FROM events"
NEW = "SELECT id, CASE WHEN id = 113 THEN string(1 / (id - id)) ELSE 'new' END AS name FROM events"
# Older records could be past the topic's retention.
BEGAN_MS = (int(time.time()) - 3600) * 1000


def write(lab: Lab, document: dict[str, Any], name: str = "changed.yaml") -> Path:
    file = lab.folder / name
    file.write_text(yaml.safe_dump(document))
    return file


def send_timed(lab: Lab, topic: str, numbers: range, partition: int, first_ms: int) -> None:
    """Send ids, a second apart by their timestamps."""
    with Producer(lab.connection) as producer:
        for place, number in enumerate(numbers):
            value = f'{{"id": {number}, "name": "n"}}'
            producer.send(topic, value, partition=partition, timestamp_ms=first_ms + 1000 * place)


def moment(seconds: int) -> str:
    """Name the time so many seconds after the first record."""
    return datetime.datetime.fromtimestamp(BEGAN_MS / 1000 + seconds, datetime.UTC).isoformat()


def begin(lab: Lab, file: Path, since: str, end: str, into: dict[str, str] | None = None) -> RangeReplay:
    given = settings.load(home=lab.kafka.home)
    return range_replay.begin(given, file, since, end, into or {}, replace=into is None)


def go_on(lab: Lab, begun: RangeReplay, show: Callable[[Status], None] = lambda _status: None) -> Status:
    """Run a replay as `--resume` does, on the Spark that runs already."""
    given = settings.load(home=lab.kafka.home)
    return range_replay.run(given, range_replay.find(given, begun.pipeline, begun.range.id), show=show)


def open_letters(lab: Lab, pipeline: str) -> list[tuple[int, int]]:
    """Give partition and offset of each letter that is not settled; one that is open twice stands twice."""
    return sorted((each.partition, each.offset) for each in select(lab.connection, Filter(pipeline=pipeline)))


def progress(lab: Lab, pipeline: str) -> tuple[bytes, Any]:
    """Give the live pipeline's checkpoint and what its group says."""
    group = groups.describe(lab.kafka.admin(), f"penstock.{pipeline}")
    return (lab.home(pipeline).checkpoint / "committed.json").read_bytes(), group


def named(lab: Lab, path: Path | None = None) -> dict[tuple[int, int], list[str]]:
    """Give the names that each record left in the table; one that landed twice has two."""
    found: dict[tuple[int, int], list[str]] = {}
    for row in lab.rows(path):
        found.setdefault((row["_partition"], row["_offset"]), []).append(row["name"])
    return found


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
        running.join(60)
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


def test_letters_that_an_unfinished_replay_has_claimed_keep_a_range_from_replacing_their_rows(lab: Lab) -> None:
    topic = lab.kafka.topic("replay-claimed")
    lab.send_ids(topic, range(100, 120))
    lab.run(lab.spec(topic, steps=[{"sql": OLD}]))
    given = settings.load(home=lab.kafka.home)
    file = write(lab, lab.document(topic, steps=[{"sql": "SELECT id, 'new' AS name FROM events"}]))
    # Begun and not run, as after a crash.
    claimed = letter_replays.begin(given, list(select(lab.connection, Filter(pipeline=topic))), file)
    begun = begin(lab, file, "0", "20")

    with pytest.raises(Conflict, match=f"penstock dead replay --resume {claimed.id}"):
        go_on(lab, begun)
    untouched = named(lab)
    letter_replays.run(given, letter_replays.find(given, claimed.id))
    go_on(lab, begun)
    letter_replays.run(given, letter_replays.find(given, claimed.id))

    assert {(0, number): ["old"] for number in range(20) if number not in {3, 13}} == untouched
    assert {(0, number): ["new"] for number in range(20)} == named(lab)
    assert [] == open_letters(lab, topic)


def test_letters_of_a_range_that_is_half_done_wait_for_its_end_and_are_then_replayed_once(lab: Lab) -> None:
    topic = lab.kafka.topic("replay-half")
    lab.send_ids(topic, range(110, 130))
    lab.run(lab.spec(topic))
    given = settings.load(home=lab.kafka.home)
    file = write(lab, lab.document(topic, steps=[{"sql": NEW}], batch={"max_events": 6}))
    fixed = write(lab, lab.document(topic, steps=[{"sql": "SELECT id, 'fixed' AS name FROM events"}]), "fixed.yaml")
    begun = begin(lab, file, "0", "20")

    def give_up(_status: Status) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go_on(lab, begun, give_up)
    failed = list(select(lab.connection, Filter(pipeline=topic)))
    with pytest.raises(Conflict, match=f"penstock pipeline replay FILE --resume {begun.range.id}"):
        letter_replays.begin(given, failed, fixed)
    go_on(lab, begun)
    letter_replays.run(given, letter_replays.begin(given, failed, fixed))

    assert [3] == [each.offset for each in failed]
    assert {(0, number): ["fixed" if number == 3 else "new"] for number in range(20)} == named(lab)
    assert [] == open_letters(lab, topic)


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


def test_records_that_were_deleted_after_the_range_was_fixed_end_the_replay(lab: Lab) -> None:
    topic = lab.kafka.topic("replay-gone")
    lab.send_ids(topic, range(20, 30))
    lab.run(lab.spec(topic, steps=[{"sql": OLD}]))
    file = write(lab, lab.document(topic, steps=[{"sql": NEW}]))
    begun = begin(lab, file, "2", "8")
    topics.purge(lab.kafka.admin(), topic, {0: 5})

    with pytest.raises(RetentionPassed) as gone:
        go_on(lab, begun)
    with pytest.raises(Conflict, match=f"the replay {begun.range.id} was given up: records were deleted"):
        go_on(lab, begun)
    left = begin(lab, file, "5", "8")
    go_on(lab, left)

    assert 9 == gone.value.exit_code
    assert f"{topic}/0 offsets 2 to 4" in str(gone.value)
    assert str(gone.value).endswith("Begin a new replay of what is left")
    # The letter of a record that is gone from the topic is all that is left of it.
    assert [(0, 3)] == open_letters(lab, topic)
    assert {(0, number): ["new" if 5 <= number < 8 else "old"] for number in range(10) if number != 3} == named(lab)


@pytest.mark.parametrize(
    ("since", "end", "into", "said"),
    [
        ("0", "3", {}, "say where the rows go"),
        ("0", "3", {"nowhere": "x"}, "there is no sink 'nowhere'; there are delta, json"),
        ("3", "3", {"delta": "x"}, "there is no record from 3 to 3"),
        ("2100-01-01", "latest", {"delta": "x"}, "there is no record from 2100-01-01 to latest"),
        ("0", "9", {"delta": "x"}, "offset 9 is not in"),
        ("soon", "latest", {"delta": "x"}, "'soon' is no position in a topic"),
        ("0", "3", None, "a `json` sink cannot replace what it has written"),
        ("0", "3", {"delta": "lines/../table"}, "sink 'delta' writes there already"),
        ("0", "3", {"delta": "lines"}, "sink 'json' writes there already"),
        ("0", "3", {"delta": "x", "json": "x"}, "another sink writes to this folder"),
    ],
)
def test_a_replay_that_cannot_be_is_refused_before_anything_runs(
    since: str, end: str, into: dict[str, str] | None, said: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = lab.kafka.topic("replay-refused")
    lab.send_ids(topic, range(3))
    sinks = [{"type": "delta", "path": str(lab.table)}, {"type": "json", "path": str(lab.folder / "lines")}]
    file = write(lab, lab.document(topic, sinks=sinks))
    monkeypatch.chdir(lab.folder)

    with pytest.raises(BadInput, match=said):
        begin(lab, file, since, end, into)

    assert not (lab.home(topic).folder / "replays").exists()


def test_a_table_of_postgres_and_a_topic_have_names_and_no_paths(lab: Lab, postgres: RunningPostgres) -> None:
    topic = lab.kafka.topic("replay-named")
    lab.send_ids(topic, range(3))
    login = {**postgres.database().model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}
    sinks = [{"type": "postgres", "table": "landed", "server": login}, {"type": "kafka", "topic": f"{topic}-out"}]
    file = write(lab, lab.document(topic, sinks=sinks))

    with pytest.raises(BadInput, match="that is no table"):
        begin(lab, file, "0", "3", {"postgres": "no/table"})
    with pytest.raises(BadInput, match="sink 'postgres' writes there already"):
        begin(lab, file, "0", "3", {"postgres": "public.landed"})
    with pytest.raises(BadInput, match="it would never end"):
        begin(lab, file, "0", "3", {"kafka": topic})

    elsewhere = {"postgres": "other", "kafka": f"{topic}-again"}
    assert elsewhere == begin(lab, file, "0", "3", elsewhere).into


def test_mistakes_on_the_command_line_are_reported_in_one_line(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("replay-commands")
    file = write(lab, lab.document(topic))
    home = lab.kafka.home

    both = cli("pipeline", "replay", file, "--from", "0", "--replace", "--into", "delta=x", home=home)
    unknown = cli("pipeline", "replay", file, "--resume", "0badcafe", home=home)
    nowhere = cli("pipeline", "replay", file, "--replace", home=home)
    torn = cli("pipeline", "replay", file, "--from", "0", "--into", "delta", home=home)

    assert [2, 3, 2, 2] == [said.code for said in (both, unknown, nowhere, torn)]
    assert [1] * 4 == [len(said.error_lines) for said in (both, unknown, nowhere, torn)]
    assert f"pipeline '{topic}' has no replay '0badcafe' here" in unknown.err
    with pytest.raises(NotFound):
        range_replay.find(settings.load(home=home), topic, "../..")


def test_letters_of_a_range_behind_a_transaction_of_somebody_else_are_waited_for(lab: Lab) -> None:
    topic = lab.kafka.topic("replay-behind")
    make_topics(lab.kafka.admin(), {f"{topic}.dead": 1})
    topic_id = topics.identify(lab.kafka.admin(), [topic])[topic][0]
    told = {
        **dict.fromkeys(ENVELOPE, "1"),
        "pipeline": topic,
        "sink": "",
        "topic": topic,
        "topic_id": topic_id,
        "partition": "0",
    }
    chosen = Range(
        id="00000000", parts=[Part(topic=topic, topic_id=topic_id, partition=0, start=0, end=10)], replaces=True
    )
    options = ProducerOptions(transactional_id=f"other-{topic}")

    with ThreadPoolExecutor() as threads, Producer(lab.connection, options) as other:
        with other.transaction() as transaction:
            transaction.send(f"{topic}.dead", b"of another pipeline")
            other.flush()
            with Producer(lab.connection) as producer:
                headers = [(f"{PREFIX}{name}", value.encode()) for name, value in told.items()]
                producer.send(f"{topic}.dead", b"x", headers=headers)
            given = settings.load(home=lab.kafka.home)
            looking = threads.submit(range_replay._letters, given, lab.spec(topic), chosen)
            # Whoever does not wait has his answer, without the letter, within this time.
            wait([looking], 4)
        found = looking.result(60)

    assert [(0, 1)] == [(each.partition, each.offset) for each in found]


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


def test_ranges_that_overlap_wait_for_each_other_and_each_record_is_there_once(lab: Lab) -> None:
    topic = lab.kafka.topic("replay-twice", partitions=2)
    lab.send_ids(topic, range(110, 120))
    lab.send_ids(topic, range(110, 120), partition=1)
    lab.run(lab.spec(topic))
    file = write(lab, lab.document(topic, steps=[{"sql": NEW}], batch={"max_events": 8}))
    fixed = write(lab, lab.document(topic, steps=[{"sql": "SELECT id, 'fixed' AS name FROM events"}]), "fixed.yaml")
    first, second = begin(lab, file, "0", "6"), begin(lab, fixed, "2", "9")
    behind = begin(lab, fixed, "6", "7")
    with dying("sink_committed:dead"):
        go_on(lab, first)

    with pytest.raises(Conflict, match=f"penstock pipeline replay FILE --resume {first.range.id}"):
        go_on(lab, second)
    untouched = named(lab)
    go_on(lab, behind)
    go_on(lab, first)
    failed = open_letters(lab, topic)
    go_on(lab, second)

    assert {(partition, number): [f"n{110 + number}"] for partition in range(2) for number in range(10)} == untouched
    assert [(0, 3), (1, 3)] == failed
    assert {
        (partition, number): ["new" if number < 2 else "fixed" if number < 9 else "n119"]
        for partition in range(2)
        for number in range(10)
    } == named(lab)
    assert [] == open_letters(lab, topic)


def test_a_range_waits_until_the_pipeline_has_written_again_what_a_restored_table_lacks(lab: Lab) -> None:
    topic = lab.kafka.topic("replay-restored")
    lab.send_ids(topic, range(110, 115))
    lab.run(lab.spec(topic, steps=[{"sql": OLD}]))
    version = DeltaTable(str(lab.table)).version()
    lab.send_ids(topic, range(115, 120))
    lab.run(lab.spec(topic, steps=[{"sql": OLD}]))
    file = write(lab, lab.document(topic, steps=[{"sql": NEW}], batch={"max_events": 4}))
    begun = begin(lab, file, "1", "9")
    DeltaTable(str(lab.table)).restore(version)

    with pytest.raises(Conflict, match=r"sink 'delta' stands at offset 5, .* go on with --resume"):
        go_on(lab, begun)
    open_then = open_letters(lab, topic)
    lab.run(lab.spec(topic, steps=[{"sql": OLD}]))
    go_on(lab, begun)
    lab.run(lab.spec(topic, steps=[{"sql": OLD}]))

    assert [(0, 3)] == open_then == open_letters(lab, topic)
    assert {(0, number): ["new" if 1 <= number < 9 else "old"] for number in range(10) if number != 3} == named(lab)


def test_a_range_settles_only_letters_of_what_it_writes_to_and_reads(lab: Lab, postgres: RunningPostgres) -> None:
    topic = lab.kafka.topic("replay-settles")
    server = postgres.database()
    login = {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}
    sinks = [{"type": "delta", "path": str(lab.table)}]
    both = [*sinks, {"type": "postgres", "name": "other", "table": "landed", "server": login}]
    with postgres.connect(server.database) as connection:
        columns = "id bigint CHECK (id <> 101), name text, _topic_id text, _partition int, _offset bigint"
        connection.execute(f"CREATE TABLE landed ({columns})")
    lab.send_ids(topic, range(100, 106))
    lab.send(topic, b"malformed")
    lab.run(lab.spec(topic, steps=[{"sql": OLD}], sinks=both))
    file = write(lab, lab.document(topic, steps=[{"sql": NEW}], sinks=sinks))
    whole = write(lab, lab.document(topic, steps=[{"sql": NEW}], sinks=both), "whole.yaml")
    begun = begin(lab, file, "0", "6")

    with pytest.raises(Conflict, match=r"failed for all sinks, and sink 'other' is not in the file: .* --resume"):
        go_on(lab, begun)
    untouched = open_letters(lab, topic)
    given = settings.load(home=lab.kafka.home)
    letters = list(select(lab.connection, Filter(pipeline=topic, stage="sql")))
    letter_replays.run(given, letter_replays.begin(given, letters, whole))
    cut_off = SourcePartition(topic, topics.identify(lab.kafka.admin(), [topic])[topic][0], 0)
    gaps.record(lab.home(topic).gaps, [Gap.of(topic, cut_off, (6, 7), "log truncated", "skip-gap")])
    go_on(lab, begun)
    go_on(lab, begin(lab, file, "6", "7"))

    assert [(0, 1), (0, 3), (0, 6)] == untouched
    # Still open: what the sink that is not in the file refused, and what the range does not read.
    assert [(0, 1), (0, 6)] == open_letters(lab, topic)
    assert {(0, number): ["new"] for number in range(6)} == named(lab)
    with postgres.connect(server.database) as connection:
        assert [0, 2, 3, 4, 5] == [row[0] for row in connection.execute("SELECT _offset FROM landed ORDER BY 1")]


def test_letters_of_records_that_are_deleted_before_a_range_gets_to_them_are_open_again(lab: Lab) -> None:
    topic = lab.kafka.topic("replay-purged")
    lab.send_ids(topic, range(100, 120))
    lab.run(lab.spec(topic, steps=[{"sql": OLD}]))
    file = write(lab, lab.document(topic, steps=[{"sql": NEW}], batch={"max_events": 6}))
    begun = begin(lab, file, "0", "20")

    def lose_records(_status: Status) -> None:
        topics.purge(lab.kafka.admin(), topic, {0: 16})

    with pytest.raises(RetentionPassed, match="Begin a new replay of what is left"):
        go_on(lab, begun, lose_records)
    with pytest.raises(Conflict, match="was given up"):
        go_on(lab, begun)
    go_on(lab, begin(lab, file, "16", "20"))

    assert [(0, 13)] == open_letters(lab, topic)
    assert {
        (0, number): ["old" if 6 <= number < 16 else "new"] for number in range(20) if number != 13
    } == named(lab)  # fmt: skip


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
