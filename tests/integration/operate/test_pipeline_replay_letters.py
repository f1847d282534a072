"""What a replay of a range makes of the dead letters of its records, and they of it."""

from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from penstock.config import settings
from penstock.delivery import gaps
from penstock.delivery.dead_envelope import ENVELOPE, PREFIX
from penstock.delivery.dead_letters import make_topics
from penstock.delivery.gaps import Gap
from penstock.delivery.selection import Filter, select
from penstock.errors import Conflict, RetentionPassed
from penstock.kafka import topics
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.operate import range_replay
from penstock.operate import replay as letter_replays
from penstock.operate.status import Status
from penstock.record.positions import SourcePartition
from penstock.sources.range import Part, Range

from support.pipelines import Lab
from support.range_replays import NEW, OLD, begin, go_on, named, open_letters, write


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


@pytest.mark.soak
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


def test_letters_of_a_range_behind_a_transaction_of_somebody_else_are_waited_for(lab: Lab) -> None:
    topic = lab.kafka.topic("replay-behind")
    make_topics(lab.kafka.admin(), {f"{topic}.dead": 1})
    topic_id = topics.identify(lab.kafka.admin(), [topic])[topic][0]
    told = {
        **dict.fromkeys(ENVELOPE, "1"),
        "pipeline": topic,
        "sink": "",
        "sinks": "[]",
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
        found = looking.result(240)

    assert [(0, 1)] == [(each.partition, each.offset) for each in found]


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


@pytest.mark.soak
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
