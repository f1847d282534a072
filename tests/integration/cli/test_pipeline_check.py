"""`penstock pipeline check` and `new`: mistakes are found with file, line, key and remedy, without starting Spark."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from penstock.errors import BadInput
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.pipeline.load import load
from penstock.record.columns import COORDINATES, RESERVED
from penstock.sinks.delta_table import make_table

from conftest import Cli, Said
from support.iceberg_driver import Driver
from support.pipelines import Lab
from support.postgres_driver import ask

GOOD = """\
name: orders
source: {type: kafka, topics: [orders]}
decode: {type: json, schema: "id bigint NOT NULL, name string"}
steps:
  - sql: SELECT *, id * 2 AS twice FROM events WHERE id > 0
expect:
  - {name: small, that: twice < 100}
sinks:
  - {type: delta, path: tables/orders}
"""


def changed(*changes: tuple[str, str]) -> str:
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


CONTRADICTIONS = {
    "unknown key": (changed(("sinks:", "snks:")), ["pipeline.yaml:8:1: snks", "sinks"]),
    "topics and pattern": (changed(("topics: [orders]", "topics: [a], pattern: b")), ["pipeline.yaml:2", "either"]),
    "offsets and start": (
        changed(("topics: [orders]", "topics: [orders], start: latest, offsets: {orders: {0: 1}}")),
        ["pipeline.yaml:2:56: source.offsets", "leave one out"],
    ),
    "endless loop": (
        changed(("{type: delta, path: tables/orders}", "{type: kafka, topic: orders}")),
        ["pipeline.yaml:9:19: sinks.0.topic", "never end"],
    ),
    "same folder": (
        changed(("/orders}", "/orders}\n  - {type: json, path: ./tables/../tables/orders}")),
        ["pipeline.yaml:10:18: sinks.1.path", "another sink writes to this folder"],
    ),
    "same name": (changed(("/orders}", "/orders}\n  - {type: delta, path: b}")), ["two sinks are called 'delta'"]),
    "no decoder": (
        changed(('decode: {type: json, schema: "id bigint NOT NULL, name string"}\n', "")),
        ["pipeline.yaml:1:1: decode", "say how bytes become columns"],
    ),
    "bad type": (changed(("id bigint NOT", "id bigit NOT")), ["pipeline.yaml:3:22: decode", "bigit"]),
    "aggregate": (
        changed(("id * 2", "sum(id)")),
        ["pipeline.yaml:5:5: steps.0.sql", "aggregates look at more than one event", "second pipeline"],
    ),
    "group by": (changed(("WHERE id > 0", "GROUP BY id")), ["pipeline.yaml:5:5: steps.0.sql", "second pipeline"]),
    "no module": (
        changed(("- sql: SELECT *, id * 2 AS twice FROM events WHERE id > 0", "- {python: nowhere_at_all:score}")),
        ["pipeline.yaml:5:6: steps.0.python", "there is no module 'nowhere_at_all'"],
    ),
    "state among events": (
        changed(
            (
                "- sql: SELECT *, id * 2 AS twice FROM events WHERE id > 0",
                '- {stateful: "rules:Best", key: [id], returns: "id bigint"}',
            )
        ),
        ["pipeline.yaml:5:5: steps.0", "second pipeline"],
    ),
    "bad start": (changed(("[orders]", "[orders], start: whenever")), ["pipeline.yaml:2:41: source", "whenever"]),
    "too small a batch": (
        changed(("sinks:", "batch: {max_events: 0}\nsinks:")),
        ["pipeline.yaml:8:9: batch.max_events"],
    ),
}


@pytest.mark.parametrize("kind", CONTRADICTIONS)
def test_a_contradiction_is_reported_with_file_line_key_and_remedy(kind: str, tmp_path: Path) -> None:
    text, told = CONTRADICTIONS[kind]
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)

    with pytest.raises(BadInput) as refusal:
        load(file)

    assert [] == [part for part in told if part not in str(refusal.value)], str(refusal.value)


def test_the_command_tells_all_contradictions_at_once_with_exit_2(cli: Cli, tmp_path: Path) -> None:
    text = changed(("id * 2", "sum(id)"), ("{type: delta, path: tables/orders}", "{type: kafka, topic: orders}"))
    (tmp_path / "pipeline.yaml").write_text(text)

    said = cli("pipeline", "check", "pipeline.yaml")

    assert 2 == said.code
    assert ["steps.0.sql", "sinks.0.topic"] == [key for key in ("steps.0.sql", "sinks.0.topic") if key in said.err]


def test_columns_that_nobody_makes_are_warnings(cli: Cli, tmp_path: Path) -> None:
    text = changed(("id * 2", "idd * 2"), ("twice < 100", "thrice < 100"), ("orders}\n", 'orders, where: "nix = 1"}\n'))
    (tmp_path / "pipeline.yaml").write_text(text.replace('topics: [orders, where: "nix = 1"}', "topics: [orders]}"))

    said = cli("pipeline", "check", "pipeline.yaml", "--json")

    assert 0 == said.code, said.err
    assert [
        ("pipeline.yaml:5:5: steps.0.sql", "idd"),
        ("pipeline.yaml:7:19: expect.0.that", "thrice"),
        ("pipeline.yaml:9:40: sinks.0.where", "nix"),
    ] == [
        (warning.partition(": there is no column")[0], warning.partition("column '")[2].partition("'")[0])
        for warning in said.json["warnings"]
    ]


def test_after_a_warning_check_does_not_say_that_the_pipeline_can_run(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(changed(("id * 2", "idd * 2")))

    said = cli("pipeline", "check", "pipeline.yaml")

    *_, last = said.err.splitlines()
    expected = "may run; see what it makes of real records: penstock pipeline preview pipeline.yaml"
    assert (0, expected) == (said.code, last.split("' ", 1)[1])


def test_checking_imports_no_spark(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(GOOD)
    program = (
        "import sys\nfrom penstock.cli import main\n"
        f"sys.argv = ['penstock', 'pipeline', 'check', {str(file)!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    print(end.code)\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('pyspark', 'py4j')])\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path, env=dict(os.environ)
    )

    assert "[]" == done.stdout.splitlines()[-1]
    assert "pipeline 'orders' can run" in done.stderr


def test_a_new_file_is_accepted_by_check_is_not_overwritten_and_runs(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("template")
    lab.send(
        topic,
        {"id": 1, "name": "x", "amount": 150.0, "at": "2026-01-31T12:00:00Z"},
        {"id": 2, "amount": 5.0},
        {"id": 3},
    )

    made = cli("pipeline", "new", "first-try", "--topic", topic)
    checked = cli("pipeline", "check", "first-try.yaml", "--json")
    again = cli("pipeline", "new", "first-try")
    file = lab.folder / "first-try.yaml"
    file.write_text(file.read_text().replace("speed: stream", "speed: scheduled"))
    lab.run(load(file))

    assert (0, 0, 6) == (made.code, checked.code, again.code)
    assert {"pipeline": "first-try", "warnings": [], "looked_at": []} == checked.json
    assert [(1, True), (2, False)] == [(row["id"], row["large"]) for row in lab.rows(lab.folder / "tables/first-try")]
    assert ["ExpectationFailed"] == [letter.error for letter in lab.letters(topic)]
    assert "stream" not in yaml.safe_load(file.read_text())["speed"]


def test_a_function_that_is_not_there_and_a_module_that_does_not_load_are_found(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "rules_of_check.py").write_text("def score(event):\n    return event\n")
    (tmp_path / "broken_of_check.py").write_text("limit = 1\nhalf = limit / 0\n")
    file = tmp_path / "pipeline.yaml"

    def checked(function: str) -> str:
        steps = {"steps": [{"python": function}]}
        file.write_text(yaml.safe_dump({**yaml.safe_load(GOOD), **steps, "expect": []}))
        return cli("pipeline", "check", file).err

    assert "can run" in checked("rules_of_check:score")
    assert "steps.0.python: the module 'rules_of_check' has no function 'scroe'" in checked("rules_of_check:scroe")
    assert "ZeroDivisionError: division by zero (broken_of_check.py:2: half = limit / 0)" in checked(
        "broken_of_check:f"
    )


def test_a_check_online_finds_topics_and_servers_and_makes_nothing(lab: Lab, cli: Cli) -> None:
    topic, gone = lab.kafka.topic("checked"), "never-made"
    file = lab.folder / "pipeline.yaml"
    found = {}
    for name in (topic, gone):
        file.write_text(yaml.safe_dump(lab.document(name)))
        found[name] = cli("pipeline", "check", file, "--online", home=lab.kafka.home)

    assert 0 == found[topic].code, found[topic].err
    assert f"found: {topic}/0 with 0 offsets" in found[topic].err
    assert 3 == found[gone].code
    assert f"make this one with: penstock topic create {gone}" in found[gone].err
    assert [file] == list(lab.folder.iterdir())


def test_a_check_online_says_how_old_a_record_may_be_before_its_row_is_deleted_again(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("aged")
    two_days, sent_now, forever = (lab.kafka.topic("aged", retention=each) for each in ("2d", "2d", "forever"))
    sinks = [
        {"type": "kafka", "topic": two_days},
        {"type": "kafka", "topic": sent_now, "name": "now", "timestamp": "now"},
        {"type": "kafka", "topic": forever, "name": "forever"},
    ]

    said = cli("pipeline", "check", lab.written(topic, sinks=sinks), "--online", home=lab.kafka.home)

    cautious = [line.split(",")[0] for line in said.err.splitlines() if "rows of records older than 48 h" in line]
    assert [f"found: sink 'kafka' can be reached: topic {two_days}"] == cautious, said.err


def test_a_check_online_of_a_stateful_pipeline_says_what_it_compared_and_makes_nothing(
    cli: Cli, tmp_path: Path
) -> None:
    make_table(tmp_path / "landed", pa.schema([("name", pa.string()), ("id", pa.int64())]), "landed")
    make_table(tmp_path / "counts", pa.schema([("name", pa.string())]), "counts")
    file = tmp_path / "counts.yaml"
    document = {
        "name": "counts",
        "source": {"type": "delta", "path": "landed"},
        "steps": [{"sql": "SELECT name, count(*) AS events FROM events GROUP BY name"}],
        "sinks": [
            {"type": "delta", "path": "counts", "key": ["name"]},
            {"type": "iceberg", "path": "iceberg/counts", "key": ["name"]},
        ],
    }
    file.write_text(yaml.safe_dump(document))
    before = sorted(tmp_path.iterdir())

    said = cli("pipeline", "check", file, "--online")

    found = [line for line in said.err.splitlines() if line.startswith("found: ")]
    assert 0 == said.code, said.err
    assert [
        f"found: folder {tmp_path}/landed can be read",
        "found: no state yet: everything in the table will be computed",
        f"found: sink 'delta' can be reached: folder {tmp_path}/counts, and the column events int64 will be added",
        f"found: sink 'iceberg' can be reached: folder {tmp_path}/iceberg/counts",
    ] == found
    assert before == sorted(tmp_path.iterdir())


def test_a_check_online_compares_the_columns_of_tables_that_are_there(
    lab: Lab, postgres: RunningPostgres, cli: Cli
) -> None:
    topic, server = lab.kafka.topic("compared"), postgres.database()
    login = {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}
    coordinates = [RESERVED.field(name) for name in COORDINATES]
    make_table(lab.folder / "table", pa.schema([("id", pa.int64()), ("name", pa.string()), *coordinates]), topic)
    ask(server, "CREATE TABLE landed (id bigint, _topic_id text, _partition int, _offset bigint)")
    delta = {"type": "delta", "path": str(lab.folder / "table")}
    sink = {"type": "postgres", "table": "landed", "server": login}
    file = lab.folder / "pipeline.yaml"

    def checked(schema: str, sinks: list[dict[str, Any]]) -> Said:
        decode = {"type": "json", "schema": schema}
        file.write_text(yaml.safe_dump(lab.document(topic, decode=decode, sinks=sinks)))
        return cli("pipeline", "check", file, "--online", home=lab.kafka.home)

    fitting = checked("id bigint, name string", [delta])
    other_type = checked("id string, name string", [delta])
    lacking = checked("id bigint, name string", [delta, {**sink, "new_columns": "refuse"}])
    more = checked("id bigint, name string, tags array<string>", [delta, sink])
    narrower = checked("id bigint", [sink])

    assert (0, True) == (fitting.code, "and its columns fit" in fitting.err)
    assert (6, True) == (other_type.code, "and the pipeline writes id string" in other_type.err)
    assert (6, True) == (lacking.code, "the table landed has no column 'name'" in lacking.err)
    assert 0 == more.code, more.err
    will_add = "and the column tags list<item: string> will be added"
    assert will_add in more.err
    assert "and the column name string will be added, the column tags" in more.err
    assert (0, True) == (narrower.code, "and its columns fit" in narrower.err), narrower.err


def explained(cli: Cli, folder: Path, *changes: tuple[str, str]) -> list[tuple[str, str, str, str]]:
    (folder / "pipeline.yaml").write_text(changed(*changes))
    said = cli("pipeline", "check", "pipeline.yaml", "--explain", "--json")
    assert 0 == said.code, said.err
    return [(each["key"], each["expression"], each["runs in"], each["because"]) for each in said.json["sql"]]


def test_where_each_expression_runs_is_told_with_the_reason(cli: Cli, tmp_path: Path) -> None:
    places = [("steps.0.sql", "id * 2"), ("steps.0.sql", "id > 0"), ("expect.0.that", "twice < 100")]

    workers = explained(cli, tmp_path)
    mixed = explained(cli, tmp_path, ("AS twice", "AS twice, upper(name) AS loud"))
    forced = explained(cli, tmp_path, ("name: orders\n", "name: orders\nsql_engine: spark\n"))

    assert [(*each, "the workers", "they give exactly Spark's result") for each in places] == workers
    (loud,) = (each for each in mixed if each[1] == "upper(name)")
    assert ("steps.0.sql", "upper(name)", "Spark") == loud[:3]
    assert "upper" in loud[3].lower(), loud
    along = "other SQL of the pipeline does, and the rows are there anyway"
    assert [(*each, "Spark", along) for each in places] == [each for each in mixed if each is not loud]
    assert [(*each, "Spark", "`sql_engine: spark`") for each in places] == forced


def test_people_read_where_sql_runs_as_a_table(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(changed(("name: orders\n", "name: orders\nsql_engine: spark\n")))
    (tmp_path / "plain.yaml").write_text(GOOD.partition("steps:")[0] + "sinks: [{type: console}]\n")

    said = cli("pipeline", "check", "pipeline.yaml", "--explain")
    without = cli("pipeline", "check", "plain.yaml", "--explain")

    lines = [line.split(maxsplit=1) for line in said.out.splitlines()]
    assert ["key", "steps.0.sql", "steps.0.sql", "expect.0.that"] == [key for key, _ in lines]
    assert all(line.endswith("`sql_engine: spark`") for _, line in lines[1:]), said.out
    assert "there is no SQL that runs on each event" in without.err


def test_columns_of_tables_on_this_disk_are_compared_without_a_server(cli: Cli, tmp_path: Path) -> None:
    columns = [("id", pa.int32()), ("name", pa.string()), *(RESERVED.field(name) for name in COORDINATES)]
    make_table(tmp_path / "delta", pa.schema(columns), "compared")
    Driver(tmp_path / "iceberg", pa.schema(columns)).sink.close()
    sinks = [{"type": kind, "path": kind} for kind in ("delta", "iceberg")]
    before = sorted(tmp_path.rglob("*"))

    def checked(schema: str, **more: Any) -> Said:
        document = {**yaml.safe_load(GOOD), "decode": {"type": "json", "schema": schema}, "steps": [], "expect": []}
        file = tmp_path / "pipeline.yaml"
        file.write_text(yaml.safe_dump({**document, "sinks": sinks, **more}))
        said = cli("pipeline", "check", "pipeline.yaml")
        file.unlink()
        return said

    fitting = checked("id int, name string")
    more = checked("id int, name string, at timestamp")
    wider = checked("id bigint, name string", sinks=sinks[1:])
    refused = checked("id string, name string")
    no_more = checked("id int, name string, at timestamp", sinks=[{**each, "new_columns": "refuse"} for each in sinks])
    lacking = checked("id int")
    unknown = checked("id int, name string", steps=[{"sql": "SELECT *, id + 1 AS next FROM events"}])
    nowhere = checked("id int", sinks=[{"type": "iceberg", "path": "none"}])

    assert (0, ["pipeline 'orders' can run"]) == (fitting.code, fitting.err.splitlines())
    will = "and the column at timestamp[us, tz=UTC] will be added"
    assert [
        f"found: sink 'delta': folder {tmp_path}/delta, {will}",
        f"found: sink 'iceberg': folder {tmp_path}/iceberg, {will}",
        "pipeline 'orders' can run",
    ] == more.err.splitlines()
    assert f"found: sink 'iceberg': folder {tmp_path}/iceberg, and the column id int32 will become int64" in wider.err
    assert (6, True) == (refused.code, "has the column id int32, and the pipeline writes id string" in refused.err)
    assert (6, True) == (no_more.code, "does not have the column 'at', and `new_columns` is `refuse`" in no_more.err)
    assert (6, True) == (lacking.code, "has the column 'name', which the pipeline does not write" in lacking.err)
    online = ", whose columns are compared by: penstock pipeline check pipeline.yaml --online"
    assert (0, 2) == (unknown.code, sum(line.endswith(online) for line in unknown.err.splitlines())), unknown.err
    assert (0, ["pipeline 'orders' can run"]) == (nowhere.code, nowhere.err.splitlines())
    assert before == sorted(tmp_path.rglob("*"))
