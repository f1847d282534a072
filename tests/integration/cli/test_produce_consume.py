"""Records on the command line: what goes in comes out as it was, and what is wrong with a line is told."""

import json
import subprocess
import sys
from pathlib import Path

from penstock.kafka import groups
from penstock.kafka.reader import read_all
from penstock.schemas.wire import framed

from conftest import Cli, RunningKafka, Said
from support.raw_records import RawRecord, send_raw


def one_clear_line(said: Said, code: int) -> str:
    assert said.code == code, said.err
    assert "Traceback" not in said.err
    (line,) = said.error_lines
    assert "" == said.out
    return line


def test_json_lines_go_in_with_their_keys_and_headers_and_come_out_as_they_were(kafka: RunningKafka, cli: Cli) -> None:
    topic = kafka.topic(partitions=2)
    lines = "".join(json.dumps({"id": f"k{n % 3}", "n": n}) + "\n" for n in range(10))

    sent = cli("produce", topic, "--key-field", "id", "--header", "source=test", home=kafka.home, stdin=lines)
    got = cli("consume", topic, "--json", home=kafka.home)
    records = [json.loads(line) for line in got.out.splitlines()]

    assert sent.code == 0, sent.err
    assert "10 records acknowledged" in sent.err
    assert "" == sent.out
    assert sorted(lines.splitlines()) == sorted(record["value"] for record in records)
    assert all(record["key"] == json.loads(record["value"])["id"] for record in records)
    assert {"[['source', 'test']]"} == {str(record["headers"]) for record in records}


def test_a_key_that_is_nested_too_deeply_is_reported_with_its_line(kafka: RunningKafka, cli: Cli) -> None:
    topic = kafka.topic()
    deep = '{"id": ' + "[" * 500 + "]" * 500 + "}"

    said = cli("produce", topic, "--key-field", "id", home=kafka.home, stdin=f'{{"id": 1}}\n{deep}\n')

    assert "line 2 cannot have the field 'id' for its key, which is nested too deeply" in one_clear_line(said, 2)
    assert "Before it, 1 record acknowledged" in said.err


def test_filters_and_limits_choose_records(kafka: RunningKafka, cli: Cli) -> None:
    topic, home = kafka.topic(), kafka.home
    cli("produce", topic, "--key", "a", "--header", "kind=odd", home=home, stdin="one\nthree\n")
    cli("produce", topic, "--key", "b", "--header", "kind=even", home=home, stdin="two\nfour\n")

    def got(*options: str) -> list[str]:
        return cli("consume", topic, *options, home=home).out.splitlines()

    assert ["one", "three"] == got("--key", "a")
    assert ["three", "two", "four"] == got("--from", "1")
    assert ["one", "three"] == got("--until", "2")
    assert ["two", "four"] == got("--header", "kind=even")
    assert ["one", "two", "four"] == got("--value", "o")
    assert ["one"] == got("--count", "1")
    assert ["four"] == got("--tail", "1")
    assert [] == got("--from", "latest")
    assert ["one", "three", "two", "four"] == got("--from", "1h")


def test_a_time_that_is_in_no_calendar_is_shown_in_milliseconds(kafka: RunningKafka, cli: Cli) -> None:
    nanoseconds = 1_700_000_000_000_000_000
    topic = kafka.topic(config={"message.timestamp.after.max.ms": 2**63 - 1})
    send_raw(kafka.connection, topic, RawRecord(b"1", timestamp_ms=nanoseconds), RawRecord(b"2"))

    said = cli("consume", topic, "--json", home=kafka.home)

    assert said.code == 0, said.err
    shown = [json.loads(line)["timestamp"] for line in said.out.splitlines()]
    assert [nanoseconds, "2023-11-14T22:13:20.000+00:00"] == shown


def test_looking_joins_no_group_and_a_named_group_moves_on(kafka: RunningKafka, cli: Cli) -> None:
    topic, home = kafka.topic(), kafka.home
    cli("produce", topic, home=home, stdin="1\n2\n3\n")

    before = {group.group for group in groups.list_groups(kafka.admin())}
    cli("consume", topic, home=home)
    after = {group.group for group in groups.list_groups(kafka.admin())}
    first = cli("consume", topic, "--group", f"{topic}-group", "--count", "2", home=home)
    between = groups.committed(kafka.admin(), f"{topic}-group")
    second = cli("consume", topic, "--group", f"{topic}-group", "--count", "1", home=home)

    assert not after - before
    assert (["1", "2"], ["3"]) == (first.out.splitlines(), second.out.splitlines())
    assert {(topic, 0): 2} == between
    assert {(topic, 0): 3} == groups.committed(kafka.admin(), f"{topic}-group")


def test_a_malformed_line_stops_with_its_number_and_says_how_to_go_on(
    kafka: RunningKafka, cli: Cli, tmp_path: Path
) -> None:
    topic, home = kafka.topic(), kafka.home
    file = tmp_path / "lines.json"
    file.write_text('{"n": 1}\n{"n": 2}\n{"n": 3\n{"n": 4}\n')

    line = one_clear_line(cli("produce", topic, file, "--format", "json", home=home), 2)
    file.write_text(file.read_text().replace('{"n": 3\n', '{"n": 3}\n'))
    went_on = cli("produce", topic, file, "--format", "json", "--skip", "2", home=home)

    assert "line 3 is not JSON" in line
    assert "Before it, 2 records acknowledged; after it, nothing was sent" in line
    assert "--skip 2" in line
    assert went_on.code == 0
    assert [1, 2, 3, 4] == [json.loads(m.value() or b"")["n"] for m in read_all(kafka.connection, topic)]


def test_empty_lines_are_left_out_and_counted(kafka: RunningKafka, cli: Cli) -> None:
    topic = kafka.topic()

    said = cli("produce", topic, "--json", home=kafka.home, stdin="a\n\nb\n\n\n")

    assert {"topic": topic, "sent": 2, "acknowledged": True, "empty_lines": 3} == said.json
    assert "3 empty lines left out" in said.err


def test_bytes_that_are_not_text_survive_json(kafka: RunningKafka, cli: Cli) -> None:
    topic = kafka.topic()
    cli("produce", topic, home=kafka.home, stdin=b"\xff\x00\x01\n")

    assert {"base64": "/wAB"} == cli("consume", topic, "--json", home=kafka.home).json["value"]


def test_values_that_look_framed_by_a_registry_are_told_once_with_what_decodes_them(
    kafka: RunningKafka, cli: Cli
) -> None:
    topic = kafka.topic()
    send_raw(kafka.connection, topic, *(RawRecord(framed(7, b"value")) for _ in range(2)))

    said = cli("consume", topic, home=kafka.home)

    told = f"these values look framed by a schema registry (schema id 7). Decode them with: penstock consume {topic}"
    assert 1 == said.err.count(told)
    assert 2 == said.out.count("value")


def test_a_file_in_the_place_of_the_topic_is_answered_with_the_order_of_both(
    kafka: RunningKafka, cli: Cli, tmp_path: Path
) -> None:
    file = tmp_path / "orders.jsonl"
    file.touch()

    said = one_clear_line(cli("produce", str(file), home=kafka.home), 3)

    assert said.endswith(f"Name the topic first: penstock produce TOPIC {file}")


def test_files_that_cannot_be_read_are_told_apart(kafka: RunningKafka, cli: Cli, tmp_path: Path) -> None:
    topic = kafka.topic()

    assert "is a directory" in one_clear_line(cli("produce", topic, tmp_path, home=kafka.home), 2)
    assert "there is no file" in one_clear_line(cli("produce", topic, tmp_path / "missing", home=kafka.home), 3)
    assert "is a directory" in one_clear_line(cli("--project", tmp_path, "topic", "list"), 2)
    assert [] == read_all(kafka.connection, topic)


def test_a_pipe_that_closes_early_is_no_error(kafka: RunningKafka, cli: Cli) -> None:
    topic = kafka.topic()
    cli("produce", topic, home=kafka.home, stdin="line\n" * 20_000)

    command = f"{sys.executable} -m penstock --home {kafka.home} consume {topic} | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)  # noqa: S607

    assert (0, "line\n") == (done.returncode, done.stdout)
    assert "Traceback" not in done.stderr
