"""Dead letters on the command line: seen, shown, sent through once more and only once, or discarded."""

import pytest

import penstock
from penstock.config import settings
from penstock.delivery.selection import Filter, select
from penstock.errors import BadInput, Conflict, NotFound
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.operate import repair
from penstock.operate import replay as replays

from conftest import Cli
from support.dead_letters import FIXED, SHARE, open_letters, replay, write
from support.pipelines import Lab, drive, record_errors


def test_letters_are_listed_shown_replayed_through_a_fixed_file_and_discarded_by_commands(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("dead-commands")
    lab.send(topic, {"id": 0, "name": "zero"}, b"\xffpoison", {"id": 4}, {"id": 0})
    lab.run(lab.spec(topic, steps=[{"sql": SHARE}]))
    fixed = write(lab, lab.document(topic, steps=[{"sql": FIXED}]))
    home = lab.kafka.home

    listed = cli("dead", "list", "--pipeline", topic, "--json", home=home)
    shown = cli("dead", "show", f"{topic}.dead", 0, 1, "--json", home=home)
    for_people = cli("dead", "show", f"{topic}.dead", 0, 1, home=home)
    beyond = cli("dead", "show", f"{topic}.dead", 0, 99, home=home)
    counted = cli("dead", "list", "--topic", f"{topic}.dead", home=home)
    asked = cli("dead", "discard", "--topic", f"{topic}.dead", home=home)
    unnamed = cli("dead", "replay", "--topic", f"{topic}.dead", "--stage", "sql", home=home)
    replayed = cli("dead", "replay", "--file", fixed, "--error", "SqlFailed", "--yes", "--json", home=home)
    again = cli("dead", "replay", "--file", fixed, "--error", "SqlFailed", "--yes", "--json", home=home)
    discarded = cli("dead", "discard", "--pipeline", topic, "--yes", "--json", home=home)
    left = cli("dead", "list", "--pipeline", topic, "--json", home=home)
    mistyped = [cli("dead", which, "--pipeline", f"{topic}s", home=home) for which in ("list", "discard", "replay")]

    assert [("sql", "SqlFailed", 2), ("decode", "Malformed", 1)] == [
        (each["stage"], each["error"], each["letters"]) for each in listed.json
    ]
    assert (3, True) == (beyond.code, "List each with: penstock dead list --letters" in beyond.err)
    fields = {line.split()[0] for line in for_people.out.splitlines() if line.strip()}
    assert {"failed", "timestamp", "offset"} == fields & {"failed", "timestamp", "offset", "failed_ms", "at", "stub"}
    assert f"show one whole with: penstock dead show {topic}.dead 0 0;" in counted.err
    assert f"Discard 3 dead letters of {topic}.dead? Nothing was changed: add --yes to do it\n" == asked.err
    assert f"no pipeline '{topic}' has run here" in unnamed.err  # the only one that these letters are of
    assert ("decode", "\\xffpoison", "k") == (
        shown.json["stage"],
        shown.json["record"]["value"],
        shown.json["record"]["key"],
    )
    assert (2, {"delta": 2}, 0) == tuple(replayed.json[key] for key in ("letters", "written", "failed_again"))
    assert [(0, 0.0), (2, 25.0), (3, 0.0)] == [(row["_offset"], row["share"]) for row in lab.rows()]
    assert (0, "") == (again.code, again.out)
    assert "no dead letters to replay" in again.err
    assert {"found": 1, "discarded": 1} == discarded.json
    assert [] == left.json
    assert [3, 3, 3] == [each.code for each in mistyped]
    assert all(f"no pipeline '{topic}s' has run here" in each.err for each in mistyped)


def test_what_fails_again_comes_back_with_its_attempt_raised_and_the_same_bytes(lab: Lab) -> None:
    topic = lab.kafka.topic("dead-again", partitions=2)
    lab.send(topic, {"id": 1}, b"first", partition=0)
    lab.send(topic, b"second", partition=1)
    file = write(lab, lab.document(topic))
    lab.run(lab.spec(topic))

    begun, status = replay(lab, file, pipeline=topic)
    after_one = open_letters(lab, topic)
    replay(lab, file, pipeline=topic)

    assert 2 == begun.count
    assert (2, 0) == (status.dead, status.sinks["delta"].written)
    assert [(0, "Malformed", 2), (1, "Malformed", 2)] == after_one
    assert [(0, "Malformed", 3), (1, "Malformed", 3)] == open_letters(lab, topic)
    assert {b"first", b"second"} == {message.value() for message in lab.dead_records(topic)}
    assert {(topic, 0, 1), (topic, 1, 0)} == {
        (letter.topic, letter.partition, letter.offset) for letter in lab.letters(topic)
    }
    assert [1] == lab.ids()


def test_a_replay_that_is_run_again_after_its_end_changes_nothing(lab: Lab) -> None:
    topic = lab.kafka.topic("dead-once")
    lab.send_ids(topic, [0, 5])
    lab.run(lab.spec(topic, steps=[{"sql": SHARE}]))
    fixed = write(lab, lab.document(topic, steps=[{"sql": FIXED}]))

    begun, _ = replay(lab, fixed, pipeline=topic)
    replays.run(settings.load(home=lab.kafka.home), begun)

    assert [0, 5] == lab.ids()
    assert [] == open_letters(lab, topic)


def test_letters_that_are_being_replayed_can_be_claimed_by_nobody_else(lab: Lab) -> None:
    topic = lab.kafka.topic("dead-claimed")
    lab.send(topic, b"poison")
    lab.run(lab.spec(topic))
    file = write(lab, lab.document(topic))
    given = settings.load(home=lab.kafka.home)
    letters = list(select(lab.connection, Filter(pipeline=topic)))
    replays.begin(given, letters, file)

    with pytest.raises(Conflict, match="settled in the meantime"):
        replays.begin(given, letters, file)
    assert [] == open_letters(lab, topic)


def test_letters_of_another_pipeline_do_not_go_through_this_one(lab: Lab) -> None:
    topic = lab.kafka.topic("dead-strangers")
    lab.send(topic, b"poison")
    lab.run(lab.spec(topic))
    file = write(lab, lab.document(topic, name=f"{topic}-other"))

    with pytest.raises(BadInput, match=f"dead letters of pipeline '{topic}'"):
        replay(lab, file, pipeline=topic)
    assert 1 == len(open_letters(lab, topic))


def test_a_row_that_one_sink_refuses_is_replayed_to_that_sink_only(lab: Lab, postgres: RunningPostgres) -> None:
    topic = lab.kafka.topic("dead-sink")
    server = postgres.database()
    login = {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}
    sinks = [{"type": "delta", "path": str(lab.table)}, {"type": "postgres", "table": "landed", "server": login}]
    document = lab.document(topic, sinks=sinks)
    lab.send_ids(topic, range(3))
    lab.run(lab.spec(topic, sinks=sinks))
    with postgres.connect(server.database) as connection:
        connection.execute("ALTER TABLE landed ADD CONSTRAINT small CHECK (id < 100)")
    lab.send_ids(topic, [3, 200, 4])
    lab.run(lab.spec(topic, sinks=sinks))
    (letter,) = lab.letters(topic)
    with postgres.connect(server.database) as connection:
        before = [row[0] for row in connection.execute("SELECT id FROM landed ORDER BY id")]
        connection.execute("ALTER TABLE landed DROP CONSTRAINT small")

    _, status = replay(lab, write(lab, document), pipeline=topic, stage="sink")

    assert ("postgres", [(4, "sink", "CheckViolation")]) == (letter.sink, record_errors([letter]))
    assert [0, 1, 2, 3, 4] == before
    assert (0, 1) == (status.sinks["delta"].written, status.sinks["postgres"].written)
    assert [0, 1, 2, 3, 4, 200] == lab.ids()
    with postgres.connect(server.database) as connection:
        assert [0, 1, 2, 3, 4, 200] == [row[0] for row in connection.execute("SELECT id FROM landed ORDER BY id")]
    assert [] == open_letters(lab, topic)


def test_filters_choose_by_stage_error_and_time(lab: Lab) -> None:
    topic = lab.kafka.topic("dead-filters")
    lab.send(topic, b"poison", {"id": 0}, {"name": "no id"})
    lab.run(lab.spec(topic, steps=[{"sql": SHARE}]))

    assert [(0, "Malformed", 1), (2, "SchemaMismatch", 1)] == open_letters(lab, topic, stage="decode")
    assert [(1, "SqlFailed", 1)] == open_letters(lab, topic, error="100 / id")
    assert 3 == len(open_letters(lab, topic, since="1h"))
    assert [] == open_letters(lab, topic, until="1h")
    assert [] == open_letters(lab, topic, topic=f"{topic}.dead", stage="expect")
    with pytest.raises(NotFound, match=rf"holds no such dead letters\. Did you mean --topic {topic}\.dead\?"):
        open_letters(lab, topic, topic=topic)


def test_letters_of_two_topics_are_replayed_together(lab: Lab) -> None:
    first, second = lab.kafka.topic("dead-first"), lab.kafka.topic("dead-second")
    source = {"type": "kafka", "topics": [first, second]}
    for topic in (first, second):
        lab.send(topic, {"id": 0, "name": topic}, {"id": 4, "name": topic}, {"id": 0, "name": topic})
    lab.run(lab.spec(first, source=source, steps=[{"sql": SHARE}]))

    _, done = replay(lab, write(lab, lab.document(first, source=source, steps=[{"sql": FIXED}])), pipeline=first)

    assert (4, 0) == (done.sinks["delta"].written, done.dead)
    assert [(0, first), (0, first), (0, second), (0, second), (4, first), (4, second)] == sorted(
        (row["id"], row["name"]) for row in lab.rows()
    )
    assert [] == open_letters(lab, first)


def test_letters_of_a_sink_that_the_file_does_not_have_stay_open(lab: Lab, postgres: RunningPostgres, cli: Cli) -> None:
    topic = lab.kafka.topic("dead-renamed")
    server = postgres.database()
    login = {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}
    table = {"type": "postgres", "table": "landed", "server": login}
    sinks = [{"type": "delta", "path": str(lab.table)}, {**table, "name": "first"}]
    lab.send_ids(topic, range(3))
    lab.run(lab.spec(topic, sinks=sinks))
    with postgres.connect(server.database) as connection:
        connection.execute("ALTER TABLE landed ADD CONSTRAINT small CHECK (id < 100)")
    lab.send(topic, {"id": 200, "name": "n"}, b"malformed")
    lab.run(lab.spec(topic, sinks=sinks))
    renamed = write(lab, lab.document(topic, sinks=[sinks[0], {**table, "name": "second"}]))
    fewer = write(lab, lab.document(topic, sinks=sinks[:1], decode={"type": "raw"}), "fewer.yaml")

    with pytest.raises(BadInput, match=r"1 of these dead letters are of sink 'first', which .* does not have"):
        replay(lab, renamed, pipeline=topic, stage="sink")
    with pytest.raises(BadInput, match=r"failed for all sinks, and .* does not have sink 'first'"):
        replay(lab, fewer, pipeline=topic, stage="decode")
    command = ("dead", "replay", "--pipeline", topic, "--file", renamed)
    said = cli(*command, home=lab.kafka.home)

    assert [(3, "CheckViolation", 1), (4, "Malformed", 1)] == open_letters(lab, topic)
    assert f"left out: 1 letter of sink 'first', which {renamed} does not have" in said.err


def test_letters_wait_until_the_pipeline_has_filled_a_table_again_that_was_emptied(
    lab: Lab, postgres: RunningPostgres
) -> None:
    topic = lab.kafka.topic("dead-emptied")
    server = postgres.database()
    login = {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}
    sinks = [{"type": "postgres", "table": "landed", "server": login}]
    lab.send_ids(topic, range(4))
    lab.run(lab.spec(topic, steps=[{"sql": SHARE}], sinks=sinks))
    fixed = write(lab, lab.document(topic, steps=[{"sql": FIXED}], sinks=sinks))
    with postgres.connect(server.database) as connection:
        connection.execute("TRUNCATE landed")
    given = settings.load(home=lab.kafka.home)
    begun = replays.begin(given, list(select(lab.connection, Filter(pipeline=topic))), fixed)

    with pytest.raises(Conflict, match=f"penstock dead replay --resume {begun.id}"):
        replays.run(given, begun)
    with lab.runner(lab.spec(topic, steps=[{"sql": SHARE}], sinks=sinks)) as runner:
        repair.rebuild(runner)
        drive(runner)
    replays.run(given, replays.find(given, begun.id))

    with postgres.connect(server.database) as connection:
        assert [0, 1, 2, 3] == [row[0] for row in connection.execute("SELECT id FROM landed ORDER BY id")]
    assert [] == open_letters(lab, topic)


def test_letters_are_not_replayed_without_one_of_their_sinks_where_the_pipeline_never_ran(lab: Lab) -> None:
    topic = lab.kafka.topic("dead-elsewhere")
    sinks = [{"type": "delta", "name": name, "path": str(lab.folder / name)} for name in ("a", "b")]
    lab.send_ids(topic, [0])
    lab.run(lab.spec(topic, steps=[{"sql": SHARE}], sinks=sinks))
    elsewhere = settings.load(home=lab.folder / "elsewhere", bootstrap=lab.connection.bootstrap_servers)
    fewer = write(lab, lab.document(topic, steps=[{"sql": FIXED}], sinks=sinks[:1]))
    letters = list(select(lab.connection, Filter(pipeline=topic)))

    with pytest.raises(BadInput, match=r"1 of these dead letters failed for all sinks, and .* does not have sink 'b'"):
        replays.begin(elsewhere, letters, fewer)

    assert (["a", "b"], 1) == (letters[0].sinks, len(open_letters(lab, topic)))


def test_a_sink_that_was_taken_out_of_the_file_after_the_last_run_still_has_to_get_its_letters(lab: Lab) -> None:
    topic = lab.kafka.topic("dead-edited")
    tables = {name: lab.folder / name for name in ("a", "b")}
    sinks = [{"type": "delta", "name": name, "path": str(path)} for name, path in tables.items()]
    lab.send_ids(topic, range(3))
    file = write(lab, lab.document(topic, steps=[{"sql": SHARE}], sinks=sinks))
    penstock.run(file, home=lab.kafka.home)

    write(lab, lab.document(topic, steps=[{"sql": FIXED}], sinks=sinks[:1]))
    with pytest.raises(BadInput, match=r"failed for all sinks, and .* does not have sink 'b'"):
        replay(lab, file, pipeline=topic)
    write(lab, lab.document(topic, steps=[{"sql": FIXED}], sinks=sinks))
    replay(lab, file, pipeline=topic)

    assert {"a": [0, 1, 2], "b": [0, 1, 2]} == {name: lab.ids(path) for name, path in tables.items()}
