"""Replays of a range that cannot be, and those that have to wait for something else."""

import pytest
from deltalake import DeltaTable

from penstock.config import settings
from penstock.errors import BadInput, Conflict, NotFound, RetentionPassed
from penstock.kafka import topics
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.operate import range_replay

from conftest import Cli
from support.pipelines import Lab, dying
from support.postgres_driver import ask
from support.range_replays import NEW, OLD, begin, go_on, named, open_letters, write


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
        ("0", "3", {"nowhere": "x"}, "there is no sink 'nowhere'; the sinks are: delta, json"),
        ("3", "3", {"delta": "x"}, "there is no record from 3 to 3"),
        ("2100-01-01", "latest", {"delta": "x"}, "there is no record from 2100-01-01 to latest"),
        ("0", "9", {"delta": "x"}, "offset 9 is not in"),
        ("soon", "latest", {"delta": "x"}, "'soon' is not a position in a topic"),
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
    server = postgres.database()
    login = {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}
    sinks = [{"type": "postgres", "table": "landed", "server": login}, {"type": "kafka", "topic": f"{topic}-out"}]
    file = write(lab, lab.document(topic, sinks=sinks))

    with pytest.raises(BadInput, match="that is not a valid table"):
        begin(lab, file, "0", "3", {"postgres": "no/table"})
    with pytest.raises(BadInput, match="sink 'postgres' writes there already"):
        begin(lab, file, "0", "3", {"postgres": "public.landed"})
    ask(server, "CREATE SCHEMA mine")
    ask(server, f"ALTER DATABASE {server.database} SET search_path = mine, public")
    with pytest.raises(BadInput, match="sink 'postgres' writes there already"):
        begin(lab, file, "0", "3", {"postgres": "mine.landed"})
    with pytest.raises(BadInput, match="it would never end"):
        begin(lab, file, "0", "3", {"kafka": topic})

    elsewhere = {"postgres": "public.landed", "kafka": f"{topic}-again"}
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

    with pytest.raises(Conflict, match=r"sink 'delta' is at offset 5, .* continue with --resume"):
        go_on(lab, begun)
    open_then = open_letters(lab, topic)
    lab.run(lab.spec(topic, steps=[{"sql": OLD}]))
    go_on(lab, begun)
    lab.run(lab.spec(topic, steps=[{"sql": OLD}]))

    assert [(0, 3)] == open_then == open_letters(lab, topic)
    assert {(0, number): ["new" if 1 <= number < 9 else "old"] for number in range(10) if number != 3} == named(lab)


def test_a_range_of_a_compacted_topic_is_not_replaced(lab: Lab) -> None:
    topic = lab.kafka.topic("replay-compacted")
    lab.send_ids(topic, range(3))
    topics.alter_config(lab.kafka.admin(), topic, {"cleanup.policy": "compact,delete"})
    file = write(lab, lab.document(topic))
    other = {"delta": str(lab.folder / "other")}

    with pytest.raises(BadInput, match=f"topic '{topic}' is compacted: rows of records that compaction has taken"):
        begin(lab, file, "0", "3")

    assert other == begin(lab, file, "0", "3", other).into
