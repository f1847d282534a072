"""What another version of Penstock has written to a topic or a database is refused, neither changed nor overlooked."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.delivery.dead_envelope import ENVELOPE, PREFIX
from penstock.delivery.dead_letters import DeadLetters, make_topics
from penstock.delivery.lag import LagReport, group_of
from penstock.delivery.ledger import TOPIC, Ledger, Replay
from penstock.delivery.outbox import Outbox
from penstock.driver.repeats import count_sent
from penstock.errors import FormatNotUnderstood
from penstock.kafka import groups, topics
from penstock.kafka.positions import bounds
from penstock.kafka.producer import Producer
from penstock.kafka.reader import read_all
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.record.available_range import AvailableRange
from penstock.record.formats import HEADER
from penstock.record.positions import OffsetRange, SourcePartition

from conftest import Cli, RunningKafka
from support.pipelines import Lab
from support.postgres_driver import Driver, ask

VERSIONS = [pytest.param("2", "2", id="newer"), pytest.param("0", "0", id="older"), pytest.param(None, "0", id="none")]


def send_letter(kafka: RunningKafka, topic: str, version: str | None, **told: str) -> str:
    """Put a dead letter of another version into the dead-letter topic of a topic."""
    dead_topic = f"{topic}.dead"
    make_topics(kafka.admin(), {dead_topic: 1})
    written = {**dict.fromkeys(ENVELOPE, "1"), "pipeline": topic, "topic": topic, "partition": "0", **told}
    headers = [(f"{PREFIX}{name}", value.encode()) for name, value in written.items() if name != "format"]
    if version is not None:
        headers.append((HEADER, version.encode()))
    with Producer(kafka.connection) as producer:
        producer.send(dead_topic, b"poison", headers=headers)
    return dead_topic


@pytest.mark.parametrize(("version", "shown"), VERSIONS)
def test_a_dead_letter_of_another_version_is_refused_by_every_command_and_stays(
    kafka: RunningKafka, cli: Cli, version: str | None, shown: str
) -> None:
    dead_topic = send_letter(kafka, kafka.topic("strange"), version)

    said = [
        cli("dead", "list", "--topic", dead_topic, home=kafka.home),
        cli("dead", "show", dead_topic, 0, 0, home=kafka.home),
        cli("dead", "discard", "--topic", dead_topic, "--yes", home=kafka.home),
    ]

    line = (
        f"error: the dead letter at {dead_topic}/0 offset 0 has format version {shown}, and this Penstock understands"
        " 1. Nothing was read from it and nothing was changed. Use the Penstock that wrote it"
    )
    assert [(6, "", [line])] * 3 == [(each.code, each.out, each.error_lines) for each in said]
    assert {(dead_topic, 0): (0, 1)} == bounds(kafka.admin(), [(dead_topic, 0)])
    everywhere = cli("dead", "list", "--json", home=kafka.home)
    assert (0, True) == (everywhere.code, f"warning: left out: the dead letter at {dead_topic}/0" in everywhere.err)


@pytest.mark.parametrize(("version", "shown"), [("2", "2"), ("\x1b[2Jgone", r"\x1b[2Jgone")])
def test_a_letter_of_another_version_in_a_pipelines_topic_is_passed_over_and_none_of_its_own(
    kafka: RunningKafka, version: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = kafka.topic("verdicts")
    source_partition = SourcePartition(topic, topics.describe(kafka.admin(), topic).topic_id, 0)
    dead_topic = send_letter(kafka, topic, version, source_id=source_partition.topic_id)
    ours = {"sink": "", "sinks": "[]", "at": "0", "at_partition": "0"}
    send_letter(kafka, topic, "1", source_id=source_partition.topic_id, **ours)
    dead = DeadLetters(kafka.connection, topic, "{topic}.dead", tmp_path, f"penstock.{topic}.dead")
    dead.open({dead_topic: 1})

    found = dead.recorded([OffsetRange(source_partition, 0, 5)])
    dead.close()

    said = f"warning: passed over: the dead letter at {dead_topic}/0 offset 0 has format version {shown},"
    assert {source_partition: {(0, None)}} == found
    assert [True] == [line.startswith(said) for line in capsys.readouterr().err.splitlines()]


@contextmanager
def in_the_ledger(kafka: RunningKafka, key: list[Any], value: object, version: str | None) -> Iterator[None]:
    """Keep a record in the ledger, which other tests use too."""
    # Its topic is made by the first claim.
    Ledger(kafka.connection).claim([], Replay(id="00f00f00", pipeline="makes-the-topic"))
    encoded = json.dumps(key).encode()
    with Producer(kafka.connection) as producer:
        headers = None if version is None else {HEADER: version}
        producer.send(TOPIC, json.dumps(value), key=encoded, headers=headers)
    try:
        yield
    finally:
        with Producer(kafka.connection) as producer:
            producer.send(TOPIC, None, key=encoded)


@pytest.mark.parametrize(("version", "shown"), VERSIONS)
def test_a_ledger_with_a_record_of_another_version_settles_nothing_and_lists_nothing(
    kafka: RunningKafka, cli: Cli, version: str | None, shown: str
) -> None:
    dead_topic = kafka.topic("ledger-strange-dead")
    key = ["letter", dead_topic, topics.describe(kafka.admin(), dead_topic).topic_id, 0, 0]

    with in_the_ledger(kafka, key, {"state": "discarded"}, version):
        before = bounds(kafka.admin(), [(TOPIC, 0)])
        listed = cli("dead", "list", "--topic", dead_topic, home=kafka.home)
        with pytest.raises(FormatNotUnderstood, match=f"of the topic '{TOPIC}' has format version {shown}"):
            Ledger(kafka.connection).find("00f00f00")
        after = bounds(kafka.admin(), [(TOPIC, 0)])

    assert (6, "", 1) == (listed.code, listed.out, len(listed.error_lines))
    assert before == after


def test_a_record_of_a_newer_ledger_is_refused_whatever_it_looks_like(kafka: RunningKafka) -> None:
    key = ["what later versions have", 1]

    with (
        in_the_ledger(kafka, key, {}, "2"),
        pytest.raises(FormatNotUnderstood, match=f"of the topic '{TOPIC}' has format version 2"),
    ):
        Ledger(kafka.connection).entries()


def commit(kafka: RunningKafka, group: str, topic: str, metadata: str) -> None:
    client = Consumer({**kafka.connection.librdkafka(), "group.id": group})
    client.commit(offsets=[TopicPartition(topic, 0, 5, metadata=metadata)], asynchronous=False)
    client.close()


@pytest.mark.parametrize(("metadata", "shown"), [("format=2 x", "2"), ("format=0 {id}", "0"), ("{id}", "0"), ("", "0")])
def test_positions_of_another_version_in_a_group_are_refused_and_not_taken_for_none(
    kafka: RunningKafka, metadata: str, shown: str
) -> None:
    topic = kafka.topic("positions")
    source_partition = SourcePartition(topic, topics.describe(kafka.admin(), topic).topic_id, 0)
    group = f"penstock.{topic}.out"
    for each in (group, group_of(topic)):
        commit(kafka, each, topic, metadata.format(id=source_partition.topic_id))
    outbox, report = Outbox(kafka.connection, "out", group), LagReport(kafka.connection, topic)

    with pytest.raises(FormatNotUnderstood) as position:
        outbox.positions([source_partition])
    with pytest.raises(FormatNotUnderstood) as lag:
        report.reported([source_partition])
    outbox.close()
    report.close()

    understood = f"has format version {shown}, and this Penstock understands 1"
    assert f"the position of sink 'out' at {topic}/0, in group '{group}', {understood}" == position.value.what
    assert f"the lag that was reported at {topic}/0 to group 'penstock.{topic}' {understood}" == lag.value.what
    assert {(topic, 0): 5} == groups.committed(kafka.admin(), group)


def test_a_record_that_anybody_put_into_a_sinks_topic_keeps_no_pipeline_from_starting(kafka: RunningKafka) -> None:
    out = kafka.topic("sent")
    with Producer(kafka.connection) as producer:
        coordinates = {"topic_id": b"id", "partition": b"0", "offset": b"5"}
        producer.send(out, b"", headers=[(f"{PREFIX}{name}", value) for name, value in coordinates.items()])

    assert 0 == count_sent(kafka.connection, out, [AvailableRange(SourcePartition("source", "id", 0), 0, 10)], {}, 0)


def test_what_a_pipeline_sends_says_its_version_behind_all_other_headers(lab: Lab) -> None:
    topic, target = lab.kafka.topic("versions"), lab.kafka.topic("versions-out")
    with Producer(lab.connection) as producer:
        for value in (b'{"id": 1}', b"poison"):
            producer.send(topic, value, headers=[(HEADER, b"99"), ("own", b"1")])

    lab.run(lab.spec(topic, sinks=[{"type": "kafka", "topic": target}]))

    found = [read_all(lab.connection, each)[0].headers() for each in (target, f"{topic}.dead")]
    sent: Any = [list(each or []) for each in found]
    assert [[(HEADER, b"99"), ("own", b"1")]] * 2 == [each[:2] for each in sent]
    assert [(HEADER, b"2"), (HEADER, b"1")] == [each[-1] for each in sent]
    assert 1 == len(lab.letters(topic))


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        pytest.param("UPDATE penstock_positions SET format = 2", "2", id="newer"),
        pytest.param("UPDATE penstock_positions SET format = 0", "0", id="older"),
        pytest.param("ALTER TABLE penstock_positions DROP format", "0", id="none"),
        pytest.param("TRUNCATE penstock_positions; ALTER TABLE penstock_positions DROP format", "0", id="none, empty"),
    ],
)
def test_positions_of_another_version_in_postgresql_are_refused_at_the_start_and_while_it_runs(
    postgres: RunningPostgres, change: str, shown: str
) -> None:
    server = postgres.database()
    with Driver(server) as driver:
        driver.write([(1, "a")])
        assert [(1,)] == ask(server, "SELECT format FROM penstock_positions")
        ask(server, change)
        before = ask(server, "TABLE orders"), ask(server, "TABLE penstock_positions")
        with pytest.raises(FormatNotUnderstood, match=f"penstock_positions. has format version {shown}, and this"):
            _ = driver.positions

    with pytest.raises(FormatNotUnderstood, match="or write to another schema"), Driver(server):
        pass

    assert before == (ask(server, "TABLE orders"), ask(server, "TABLE penstock_positions"))
