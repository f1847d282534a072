"""A pipeline file from the records of a topic."""

import subprocess
import sys
from pathlib import Path

import yaml

from conftest import Cli, RunningKafka


def new(kafka: RunningKafka, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    server = kafka.connection.bootstrap_servers
    command = [sys.executable, "-m", "penstock", "--bootstrap", server, "pipeline", "new", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_file_from_a_topic_has_its_columns_and_can_run(kafka: RunningKafka, cli: Cli, tmp_path: Path) -> None:
    topic = kafka.topic("looked-at")
    records = ['{"id": 1, "at": "2026-01-31T12:00:00Z", "tags": ["a"]}', '{"id": 2, "who": {"name": "ada"}}', "no json"]
    cli("produce", topic, home=kafka.home, stdin="\n".join(records) + "\n")

    done = new(kafka, tmp_path, "seen", "--from-topic", topic)
    checked = cli("pipeline", "check", tmp_path / "seen.yaml")

    assert 0 == done.returncode, done.stderr
    assert "looked at 3 records: 2 JSON objects" in done.stderr
    file = (tmp_path / "seen.yaml").read_text()
    written = yaml.safe_load(file)
    assert [topic] == written["source"]["topics"]
    assert "id bigint, at timestamp, tags array<string>, who struct<name: string>" == written["decode"]["schema"]
    schema = tmp_path / file.splitlines()[0].partition("$schema=")[2]
    assert "A pipeline of Penstock" in schema.read_text()
    assert 0 == checked.code, checked.err


def test_a_topic_without_records_or_without_json_is_no_crash(kafka: RunningKafka, cli: Cli, tmp_path: Path) -> None:
    empty, text = kafka.topic("empty"), kafka.topic("text")
    cli("produce", text, home=kafka.home, stdin="one\ntwo\n")

    nothing, plain = (
        new(kafka, tmp_path, "empty", "--from-topic", empty),
        new(kafka, tmp_path, "text", "--from-topic", text),
    )

    assert (3, True) == (nothing.returncode, "holds no record to look at" in nothing.stderr)
    assert not (tmp_path / "empty.yaml").exists()
    assert 0 == plain.returncode
    assert "text" == yaml.safe_load((tmp_path / "text.yaml").read_text())["decode"]["type"]
