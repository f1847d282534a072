"""Sinks: what each holds after a run, read by readers that know nothing of Penstock."""

import gzip
import json
from typing import Any

import pytest

from penstock.errors import BadInput, NotFound
from penstock.kafka.reader import read_all
from penstock.lab.bench.throwaway_postgres import RunningPostgres

from conftest import Cli
from support.landing import headers
from support.pipelines import Lab, total

SCHEMA = "id bigint NOT NULL, name string, at timestamp, price decimal(10,2), tags array<string>, blob binary"
EVENT = {"id": 1, "name": "é", "at": "2026-01-31T12:00:00Z", "price": "9.90", "tags": ["a"], "blob": "AAH/"}


def test_spark_itself_reads_a_landed_table_and_its_history(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("delta", partitions=2)
    spec = lab.spec(topic, decode={"type": "json", "schema": SCHEMA}, batch={"max_events": 4})
    for partition in range(2):
        lab.send(topic, *({**EVENT, "id": partition * 10 + number} for number in range(4)), partition=partition)

    lab.run(spec)
    before = sorted(row.id for row in lab.spark.read.format("delta").load(str(lab.table)).collect())
    history = lab.spark.sql(f"DESCRIBE HISTORY delta.`{lab.table}`").collect()
    compacted = cli("table", "compact", lab.table, "--json")
    lab.send(topic, {**EVENT, "id": 99})
    lab.run(spec)

    assert [0, 1, 2, 3, 10, 11, 12, 13] == before
    assert 3 == len(history)
    assert 1 == compacted.json["files_after"]
    row = lab.spark.read.format("delta").load(str(lab.table)).where("id = 99").collect()[0].asDict()
    assert ("é", "9.90", ["a"], b"\x00\x01\xff") == (row["name"], str(row["price"]), row["tags"], bytes(row["blob"]))
    assert [0, 1, 2, 3, 10, 11, 12, 13, 99] == lab.ids()
    assert 9 == cli("table", "show", lab.table, "--json").json["rows"]
    assert 5 == len(cli("table", "history", lab.table, "--json").json)


def test_one_read_feeds_sinks_of_every_kind_each_with_its_own_condition(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, whole, part = lab.kafka.topic("kinds"), lab.kafka.topic("whole"), lab.kafka.topic("part")
    lab.send(topic, *({**EVENT, "id": number} for number in range(6)), b"poison")
    sinks: list[dict[str, Any]] = [
        {"type": "delta", "path": str(lab.table), "where": "id < 5", "coordinates": False},
        {"type": "json", "path": str(lab.folder / "json"), "where": "id >= 1"},
        {"type": "kafka", "name": "whole", "topic": whole, "where": "id >= 2"},
        {"type": "kafka", "name": "part", "topic": part, "key": "id", "value": "blob", "where": "id >= 3"},
        {"type": "console", "where": "id >= 4"},
        {"type": "spark", "format": "parquet", "path": str(lab.folder / "parquet"), "where": "id = 5"},
    ]

    reports = lab.run(lab.spec(topic, decode={"type": "json", "schema": SCHEMA}, sinks=sinks))

    written = {name: total(reports, name).written for name in ("delta", "json", "whole", "part", "console", "spark")}
    assert {"delta": 5, "json": 5, "whole": 4, "part": 3, "console": 2, "spark": 1} == written
    landed = lab.spark.read.format("delta").load(str(lab.table))
    assert ["id", "name", "at", "price", "tags", "blob"] == landed.columns
    assert [0, 1, 2, 3, 4] == sorted(row.id for row in landed.collect())
    (file,) = (lab.folder / "json").glob("*.jsonl.gz")
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    assert [(number, "é", "9.90", "AAH/", number) for number in range(1, 6)] == [
        (line["id"], line["name"], line["price"], line["blob"], line["_offset"]) for line in lines
    ]
    sent = read_all(lab.connection, whole)
    assert [(b"k", number) for number in range(2, 6)] == [
        (each.key(), json.loads(each.value() or b"")["id"]) for each in sent
    ]
    assert [b"2", b"3", b"4", b"5"] == [dict(headers(each))["penstock.offset"] for each in sent]
    assert [(str(number).encode(), b"\x00\x01\xff") for number in range(3, 6)] == [
        (each.key(), each.value()) for each in read_all(lab.connection, part)
    ]
    assert [4, 5] == [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]
    assert [5] == [row.id for row in lab.spark.read.parquet(str(lab.folder / "parquet")).collect()]


def test_postgres_appends_every_event_and_upserts_one_row_per_key(lab: Lab, postgres: RunningPostgres) -> None:
    topic = lab.kafka.topic("postgres")
    server = postgres.database()
    login = {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}
    sinks = [
        {"type": "postgres", "name": "all", "table": "events", "server": login},
        {"type": "postgres", "name": "newest", "table": "newest", "server": login, "mode": "upsert", "key": ["id"]},
    ]
    spec = lab.spec(topic, decode={"type": "json", "schema": SCHEMA}, sinks=sinks)

    lab.send(topic, {**EVENT, "name": "old"}, {**EVENT, "id": 2}, {**EVENT, "name": "new"})
    lab.run(spec)
    lab.send(topic, {**EVENT, "id": 2, "name": "newer"}, {**EVENT, "id": 3, "name": "a\u0000b"})
    reports = lab.run(spec)

    with postgres.connect(server.database) as connection:
        rows = connection.execute("SELECT id, name, price, tags, blob FROM newest ORDER BY id").fetchall()
        names = [row[0] for row in connection.execute("SELECT name FROM events ORDER BY _offset")]
    assert [(1, "new"), (2, "newer")] == [row[:2] for row in rows]
    assert ("9.90", ["a"], b"\x00\x01\xff") == (str(rows[0][2]), rows[0][3], bytes(rows[0][4]))
    assert ["old", "é", "new", "newer"] == names
    # A text with a zero byte is beyond PostgreSQL: a dead letter of each sink that was to take it.
    assert {("all", "sink"), ("newest", "sink")} == {(letter.sink, letter.stage) for letter in lab.letters(topic)}
    assert [1, 1] == [total(reports, name).dead for name in ("all", "newest")]


def test_a_sink_that_comes_later_starts_where_the_pipeline_stands(lab: Lab) -> None:
    topic = lab.kafka.topic("later")
    first = {"type": "delta", "path": str(lab.table)}
    second = {"type": "delta", "name": "later", "path": str(lab.folder / "later")}
    lab.send_ids(topic, range(3))
    lab.run(lab.spec(topic, sinks=[first]))
    lab.send_ids(topic, range(3, 6))

    lab.run(lab.spec(topic, sinks=[first, second]))
    again = lab.run(lab.spec(topic, sinks=[first, second]))

    assert list(range(6)) == lab.ids()
    assert [3, 4, 5] == lab.ids(lab.folder / "later")
    assert [] == again


def test_a_kafka_sink_names_what_is_missing_before_anything_runs(lab: Lab) -> None:
    topic = lab.kafka.topic("missing")
    lab.send_ids(topic, [1])

    with pytest.raises(NotFound, match="nowhere"):
        lab.run(lab.spec(topic, sinks=[{"type": "kafka", "topic": "nowhere"}]))
    with pytest.raises(BadInput, match="names the column 'nix'"):
        lab.run(lab.spec(topic, sinks=[{"type": "kafka", "topic": topic, "key": "nix"}]))
