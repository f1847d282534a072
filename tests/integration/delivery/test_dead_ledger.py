"""The ledger of dead letters: as long as it has to be, and harmless whoever has written to it."""

import json
from pathlib import Path

import pytest
import yaml

from penstock.config import settings
from penstock.delivery.dead_envelope import ENVELOPE, enveloped
from penstock.delivery.dead_letter import DeadLetter
from penstock.delivery.ledger import TOPIC, Ledger, Replay
from penstock.errors import BadInput, Conflict, NotFound, TopicRecreated
from penstock.kafka import topics
from penstock.kafka.producer import Producer
from penstock.kafka.topic_spec import TopicSpec
from penstock.operate import range_replay
from penstock.operate import replay as replays
from penstock.operate.known_ledger import note_ledger, require_same_ledger
from penstock.operate.range_replay import RangeReplay
from penstock.record.formats import DEAD_LETTER, HEADER
from penstock.sources.range import Range

from conftest import Cli, RunningKafka


def letter(dead_topic: str, offset: int, source_id: str = "some-id") -> DeadLetter:
    return DeadLetter(
        dead_topic=dead_topic,
        dead_partition=0,
        dead_offset=offset,
        pipeline="orders",
        stage="decode",
        error="Malformed",
        message="no JSON",
        sink=None,
        topic="orders",
        topic_id="some-id",
        partition=0,
        offset=offset,
        source_id=source_id,
        at_partition=0,
        at=offset,
        attempt=1,
        failed_ms=0,
        timestamp_ms=0,
    )


def forge(kafka: RunningKafka, *entries: tuple[bytes, bytes]) -> None:
    """Write to the ledger as somebody could who may write to topics."""
    ledger = Ledger(kafka.connection)
    ledger.claim([letter(kafka.topic("forge-dead"), 0)], Replay(id="f0f0f0f0", pipeline="makes-the-topic"))
    with Producer(kafka.connection) as producer:
        for key, value in entries:
            producer.send(TOPIC, value, key=key, headers={HEADER: "1"})


def test_a_replay_has_more_letters_than_fit_into_one_record(kafka: RunningKafka) -> None:
    dead_topic = kafka.topic("ledger-many-dead")
    # As many digits as an offset can have: fewer letters than in a real case, and the same number of bytes.
    offsets = [10**18 + number for number in range(60_000)]
    ledger = Ledger(kafka.connection)

    try:
        ledger.claim([letter(dead_topic, offset) for offset in offsets], Replay(id="00c0ffee", pipeline="orders"))
        found = ledger.find("00c0ffee")
    finally:
        # Whatever looks at dead letters reads the whole ledger: no other test is to read all these, time and again.
        topics.delete(kafka.admin(), TOPIC)
        (kafka.home / "ledger.json").unlink(missing_ok=True)

    assert offsets == sorted(found.letters[dead_topic][0])
    assert (60_000, "started") == (found.count, found.state)


def test_entries_that_are_none_of_ours_are_passed_over(kafka: RunningKafka, cli: Cli) -> None:
    done = json.dumps({"id": "0000dead", "pipeline": "orders"}).encode()
    forge(
        kafka,
        (b"no JSON", b"{}"),
        (b"", b"{}"),
        (b"[]", b"{}"),
        (b'["letter"]', b"{}"),
        (b'["letter", 1, 2, 3, 4]', b"{}"),
        (b'["letter", "t", "i", 0, -1]', b'{"state": "discarded"}'),
        (b'["letter", "t", "i", 0, 1]', b"[" * 500),
        (b"[" * 5000, b"{}"),
        (b'["replay", "../../../tmp"]', b'{"id": "../../../tmp", "pipeline": "orders"}'),
        (b'["replay", "11111111"]', done),
    )

    listed = cli("dead", "list", "--topic", kafka.topic("ledger-odd-dead"), home=kafka.home)

    assert (0, "no dead letters") == (listed.code, listed.err.strip())
    for forged in ("../../../tmp", "11111111", "0000dead"):
        with pytest.raises(NotFound, match="there is no replay of dead letters"):
            Ledger(kafka.connection).find(forged)


def test_what_a_forged_entry_names_is_neither_run_nor_written_to(kafka: RunningKafka, cli: Cli, tmp_path: Path) -> None:
    harm = tmp_path / "harm"
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(harm)!r}, 'w')\n")
    told = {"state": "started", "file": str(evil), "letters": {"t": {"0": [0]}}}
    names = {"0000aaaa": "orders", "0000bbbb": str(tmp_path / "elsewhere"), "0000cccc": "../../outside"}
    for number, name in names.items():
        entry = json.dumps({"id": number, "pipeline": name, **told}).encode()
        forge(kafka, (json.dumps(["replay", number]).encode(), entry))

    said = cli("dead", "replay", "--resume", "0000aaaa", home=kafka.home)
    given = settings.load(home=kafka.home)
    for number in names:
        with pytest.raises(BadInput, match="was not begun here"):
            replays.run(given, replays.find(given, number))

    assert (2, 1) == (said.code, len(said.error_lines))
    assert said.err.strip().endswith("Name it with --file")
    assert [evil] == sorted(tmp_path.iterdir())


def test_a_letter_that_names_a_program_as_its_pipeline_runs_nothing(
    kafka: RunningKafka, cli: Cli, tmp_path: Path
) -> None:
    evil = tmp_path / "evil.py"
    evil.write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()")
    dead_topic = kafka.topic("ledger-evil-dead")
    said_by_it = {**dict.fromkeys(ENVELOPE, "0"), "pipeline": evil, "sinks": "[]", "format": DEAD_LETTER}
    with Producer(kafka.connection) as producer:
        producer.send(dead_topic, "{}", headers={name: value or b"" for name, value in enveloped(said_by_it)})

    said = cli("dead", "replay", "--topic", dead_topic, "--yes", home=kafka.home)

    assert 3 == said.code
    assert f"no pipeline '{evil}' has run here" in said.err
    assert [evil] == sorted(tmp_path.iterdir())


def test_a_replay_goes_on_with_a_file_of_its_own_pipeline_only(kafka: RunningKafka, tmp_path: Path) -> None:
    given = settings.load(home=kafka.home)
    replay = Replay(id="00facade", pipeline="orders")
    Ledger(kafka.connection).claim([letter(kafka.topic("ledger-own-dead"), 0)], replay)
    other = tmp_path / "other.yaml"
    document = {
        "name": "payments",
        "source": {"type": "kafka", "topics": ["payments"]},
        "decode": {"type": "raw"},
        "sinks": [{"type": "console"}],
        "speed": "scheduled",
    }
    other.write_text(yaml.safe_dump(document))

    with pytest.raises(BadInput, match="is one of pipeline 'orders', and the file is 'payments'"):
        replays.run(given, replays.find(given, "00facade"), other)


def test_a_replay_goes_on_and_is_given_up_only_with_a_file_that_has_its_sinks(
    kafka: RunningKafka, tmp_path: Path
) -> None:
    given = settings.load(home=kafka.home)
    dead_topic = kafka.topic("ledger-sinks-dead")
    ledger = Ledger(kafka.connection)
    ledger.claim([letter(dead_topic, 0)], Replay(id="00005111", pipeline="orders", sinks=["a", "b"]))
    document = {
        "name": "orders",
        "source": {"type": "kafka", "topics": ["orders"]},
        "decode": {"type": "raw"},
        "sinks": [{"type": "console", "name": "a"}],
        "speed": "scheduled",
    }
    fewer = tmp_path / "fewer.yaml"
    fewer.write_text(yaml.safe_dump(document))
    of_range = RangeReplay(
        pipeline="orders", file=str(fewer), into={}, range=Range(id="00005222", parts=[], replaces=True)
    )
    ledger.replace([], of_range.entry.model_copy(update={"sinks": ["a", "b"]}))

    with pytest.raises(BadInput, match="has rows for sink 'b'"):
        replays.run(given, replays.find(given, "00005111"), fewer)
    with pytest.raises(BadInput, match="has rows for sink 'b'"):
        replays.give_up(given, "00005111", fewer)
    with pytest.raises(BadInput, match="has rows for sink 'b'"):
        range_replay.run(given, of_range, show=lambda _status: None)

    assert {"started"} == {ledger.entries().replays[each].state for each in ("00005111", "00005222")}


def test_a_replay_ends_once_by_its_end_or_by_being_given_up(kafka: RunningKafka) -> None:
    dead_topic = kafka.topic("ledger-ends-dead")
    ledger = Ledger(kafka.connection)
    first, second = Replay(id="0000e001", pipeline="orders"), Replay(id="0000e002", pipeline="orders", sinks=["a"])
    ledger.claim([letter(dead_topic, 0)], first)
    ledger.claim([letter(dead_topic, 1)], second)

    ledger.give_up(first, [letter(dead_topic, 0)])
    with pytest.raises(Conflict, match="0000e001 was given up"):
        ledger.finish(first)
    ledger.finish(second)
    with pytest.raises(Conflict, match="0000e002 is done already"):
        ledger.give_up(second, [letter(dead_topic, 1)])

    found = ledger.entries()
    assert ("given_up", "done") == (found.replays[first.id].state, found.replays[second.id].state)
    assert {1} == {key[3] for key in found.settled if key[0] == dead_topic}


def test_letters_of_a_dead_letter_topic_that_was_recreated_are_not_looked_for_in_the_new_one(
    kafka: RunningKafka,
) -> None:
    dead_topic = kafka.topic("ledger-again-dead")
    ledger = Ledger(kafka.connection)
    ledger.claim([letter(dead_topic, 0)], Replay(id="0000beef", pipeline="orders"))
    topics.delete(kafka.admin(), dead_topic)
    topics.create(kafka.admin(), dead_topic, TopicSpec(partitions=1))

    with pytest.raises(TopicRecreated, match="the letters of the replay 0000beef are gone"):
        ledger.find("0000beef")


def test_letters_of_a_dead_letter_topic_that_was_deleted_hold_up_nobody(kafka: RunningKafka) -> None:
    dead_topic = kafka.topic("ledger-gone-dead")
    ledger = Ledger(kafka.connection)
    ledger.claim([letter(dead_topic, 0)], Replay(id="0000fade", pipeline="orders"))
    topics.delete(kafka.admin(), dead_topic)

    given_up = replays.give_up(settings.load(home=kafka.home), "0000fade")

    assert (0, "given_up") == (given_up.open_again, ledger.entries().replays["0000fade"].state)


def test_a_ledger_that_is_another_than_before_is_not_taken_for_an_empty_one(
    kafka: RunningKafka, cli: Cli, tmp_path: Path
) -> None:
    dead_topic = kafka.topic("ledger-lost.dead")
    home, servers = tmp_path / "home", kafka.connection.bootstrap_servers
    given = settings.load(home=home, bootstrap=servers)
    Ledger(kafka.connection).claim([letter(dead_topic, 0)], Replay(id="00001057", pipeline="orders"))
    home.mkdir()
    note_ledger(given)
    require_same_ledger(given)
    kept = home / "ledger.json"
    kept.write_text(kept.read_text().replace(topics.describe(kafka.admin(), TOPIC).topic_id, "of-one-that-was-deleted"))

    with pytest.raises(Conflict, match="letters that were replayed or discarded look open again"):
        replays.begin(given, [letter(dead_topic, 1)], tmp_path / "orders.yaml")
    listed = cli("--bootstrap", servers, "dead", "list", "--topic", dead_topic, home=home)
    note_ledger(given)  # as `dead discard` does
    require_same_ledger(given)

    assert (0, True) == (listed.code, f"warning: the topic '{TOPIC}'" in listed.err)
