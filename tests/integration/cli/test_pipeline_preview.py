"""What a pipeline would do, seen without its doing anything."""

from contextlib import chdir

import yaml

from penstock.driver.spark_job import SparkJob
from penstock.kafka import topics
from penstock.testing import run
from penstock.testing.dry_run import is_answered

from conftest import Cli
from support.pipelines import Lab

DECODE = {"type": "json", "schema": "id bigint NOT NULL"}


def test_a_preview_shows_rows_and_failures_of_real_records_and_writes_nothing(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("previewed", partitions=2)
    file = lab.folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(lab.document(topic, decode=DECODE)))
    lab.send_ids(topic, range(10))
    lab.send(topic, b"no json")
    before = topics.list_topics(lab.kafka.admin())

    last = cli("pipeline", "preview", file, "--events", "11", "--json", home=lab.kafka.home)
    first = cli("pipeline", "preview", file, "--events", "2", "--from", "earliest", "--json", home=lab.kafka.home)

    assert 0 == last.code, last.err
    (rows,) = last.json["sinks"].values()
    assert list(range(10)) == sorted(each["row"]["id"] for each in rows)
    assert [("decode", "no json")] == [(each["stage"], each["value"]) for each in last.json["dead"]]
    assert 2 == first.json["read"]
    assert before == topics.list_topics(lab.kafka.admin())
    assert not (lab.kafka.home / "pipelines" / topic).exists()
    assert [] == [path for path in lab.folder.iterdir() if path != file]


def test_a_step_that_ends_python_is_named_with_its_line(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("ended")
    (lab.folder / "ending.py").write_text("import sys\ndef f(row):\n    sys.exit(3)\n")
    file = lab.folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(lab.document(topic, decode=DECODE, steps=[{"python": "ending:f"}])))
    lab.send_ids(topic, range(2))

    said = cli("pipeline", "preview", file, home=lab.kafka.home)

    assert 10 == said.code
    assert "a step or a handler ends Python: SystemExit: 3 (ending.py:3: sys.exit(3)). Nothing was written" in said.err


STEPS = [
    {"sql": "SELECT *, 100 / id AS share, map('n', id) AS counts FROM events WHERE id <> 3"},
    {"python": "rules_of_dry_run:named"},
    {"sql": "SELECT *, upper(name) AS `shown.name` FROM events"},
]


def test_what_a_dry_run_makes_of_records_is_what_a_run_lands(lab: Lab) -> None:
    (lab.folder / "rules_of_dry_run.py").write_text(
        "def named(row):\n    assert row['id'] != 6\n    return {**row, 'name': row['name'] + str(row['id'])}\n"
    )
    topic = lab.kafka.topic("dry-run")
    values = [{"id": number, "name": "n", "tags": ["a"], "at": "2026-01-31T12:00:00Z"} for number in range(8)]
    lab.send(topic, *values, "{")
    spec = lab.spec(
        topic,
        decode={"type": "json", "schema": "id bigint NOT NULL, name string, tags array<string>, at timestamp"},
        steps=STEPS,
        expect=[{"name": "small", "that": "id < 7", "otherwise": "dead_letter"}],
        sinks=[{"type": "delta", "path": str(lab.table), "where": "id <> 2"}],
    )

    with chdir(lab.folder):
        dry = run(spec, [*values, "{"], spark=lab.spark)
    lab.run(spec)

    landed = [{name: value for name, value in row.items() if not name.startswith("_")} for row in lab.rows()]
    assert [1, 4, 5] == [row["id"] for row in landed]
    assert [{**row, "counts": dict(row["counts"])} for row in landed] == dry.rows
    assert {(each.offset, each.stage, each.error, each.message, each.line) for each in lab.letters(topic)} == {
        (each.offset, each.stage, each.error, each.message, each.line) for each in dry.dead
    }
    assert {0: "sql", 6: "step", 7: "expect", 8: "decode"} == {each.offset: each.stage for each in dry.dead}
    assert {"delta": 2} == dry.dropped


def test_sql_that_spark_was_asked_about_once_needs_no_spark_unless_spark_runs_it(lab: Lab) -> None:
    steps, analysis = [{"sql": "SELECT *, id > 5 AS big FROM events"}], lab.folder / "analysis.json"
    in_worker = lab.spec("asked-once", steps=steps)
    in_spark = lab.spec("asked-once", steps=steps, sql_engine="spark")
    before = is_answered(in_worker, lab.folder, analysis)
    for spec in (in_worker, in_spark):
        SparkJob(spec, lambda: lab.spark, lab.folder, lab.folder / "scratch", analysis)

    after = [is_answered(spec, lab.folder, analysis) for spec in (in_worker, in_spark)]

    assert [False, True, False] == [before, *after]
