import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import BadInput
from penstock.pipeline.load import load
from penstock.sinks.delta import Delta
from penstock.sources.kafka import Kafka
from penstock.steps.python import Python

START = """\
name: combat
source: {topics: [hits]}
decode: {type: json, schema: "id bigint, hp int"}
sinks:
  - {type: delta, path: tables/hits}
"""
MORE = """\
  - {type: json, path: lines, where: hp > 1, gzip: false}
  - {type: kafka, topic: critical, name: alarm, key: id}
  - {type: postgres, table: public.hits, mode: upsert, key: [id], server: {database: d, user: u, password: env:PW}}
  - {type: console, rows: 3}
  - {type: spark, format: parquet, path: parquet}
steps:
  - sql: SELECT *, hp >= 90 AS critical FROM events
  - {python: "json:dumps", returns: "id bigint, hp int"}
expect:
  - {name: hp is known, that: hp IS NOT NULL, otherwise: drop}
batch: {max_events: 5, max_bytes: 2MB, max_wait: 2s}
dead_letters: {topic: "{topic}.failed"}
speed: scheduled
retry: {give_up_after: 1h}
"""
SOURCE, DECODE, SINK = (START.splitlines()[number] for number in (1, 2, 4))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "combat.yaml"


@pytest.fixture(autouse=True)
def path_of_python() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


def complaints(file: Path, content: str) -> list[tuple[int, str, str]]:
    """Return line, key path and text of each complaint, all of which must name the file."""
    file.write_text(content)
    with pytest.raises(BadInput) as caught:
        load(file)
    found = []
    for line in caught.value.what.splitlines():
        assert line.startswith(f"{file}:")
        number, key, text = line.removeprefix(f"{file}:").split(": ", 2)
        found.append((int(number.partition(":")[0]), key, text))
    return found


def test_a_small_file_is_enough_and_the_rest_has_defaults(file: Path) -> None:
    file.write_text(START)

    spec = load(file)

    assert ("combat", ["delta"], "stream", 100_000) == (
        spec.name,
        spec.sink_names,
        spec.speed,
        spec.batch.max_events,
    )
    assert Kafka(topics=["hits"]) == spec.source
    assert "{topic}.dead" == spec.dead_letters.topic


def test_everything_that_can_be_said_is_understood(file: Path) -> None:
    file.write_text(START + MORE)

    spec = load(file)

    assert ["delta", "json", "alarm", "postgres", "console", "spark"] == spec.sink_names
    assert (2, 2_000_000, 2000, 3_600_000) == (
        len(spec.steps),
        spec.batch.max_bytes,
        spec.batch.max_wait,
        spec.retry.give_up_after,
    )


def test_paths_hold_when_the_program_goes_to_another_folder(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(START)
    monkeypatch.chdir(file.parent)

    (sink,) = load(file.name).sinks

    # Spark's workers stay where the program was when its first pipeline ran.
    assert isinstance(sink, Delta)
    assert file.parent / "tables" / "hits" == sink.path


def test_paths_count_from_the_folder_of_the_file(file: Path) -> None:
    file.write_text(START)

    (sink,) = load(file).sinks

    assert isinstance(sink, Delta)
    assert file.parent / "tables" / "hits" == sink.path


@pytest.mark.parametrize("on", ["rows", "pandas", "arrow"])
def test_what_a_python_step_works_on_can_be_said_in_yaml(file: Path, on: str) -> None:
    file.write_text(f"{START}steps:\n  - python: json:dumps\n    on: {on}\n")

    (step,) = load(file).steps

    assert isinstance(step, Python)
    assert on == step.on


@pytest.mark.parametrize(
    ("line", "instead", "expected"),
    [
        ("name: combat", "name: Combat", (1, "name", "a pipeline's name has lower-case letters, digits and dashes")),
        ("name: combat", "name: -a", (1, "name", "a pipeline's name has lower-case letters, digits and dashes")),
        ("name: combat", f"name: {'a' * 64}", (1, "name", "a pipeline's name has lower-case letters, digits and das")),
        ("name: combat", "nam: combat", (1, "name", "this key is required")),
        (SOURCE, "source: {}", (2, "source", "name either topics or a pattern")),
        (SOURCE, "source: {topics: [a], pattern: b}", (2, "source", "name either topics or a pattern")),
        (SOURCE, "source: {topics: [a, a]}", (2, "source", "a topic is listed twice")),
        (SOURCE, "source: {pattern: '('}", (2, "source.pattern", "'(' is not a regular expression")),
        (SOURCE, "source: {topics: [a], start: soon}", (2, "source.start", "'soon' is not a position in a topic")),
        (
            SOURCE,
            "source: {type: kafak}",
            (2, "source", "there is no type 'kafak': it is one of kafka,"),
        ),
        (SOURCE, "source: {topics: [a], strat: latest}", (2, "source.strat", "this key is not known; did you mean")),
        (SOURCE, "source: {topics: [a], start: latest, offsets: {a: {0: 5}}}", (2, "source.offsets", "`offsets` and")),
        (
            DECODE,
            'decode: {type: json, schema: "id bigin"}',
            (3, "decode.schema", "the column 'id': there is no type 'bigin'; did you m"),
        ),
        (DECODE, "decode: {type: json}", (3, "decode.schema", "this key is required")),
        (DECODE, "decode: {type: text, tombstones: keep}", (3, "decode.tombstones", "it must be 'dead_letter'")),
        (DECODE, "decode: {type: raw, max_record_bytes: 5}", (3, "decode.max_record_bytes", "write the unit too")),
        (SINK, "  - {type: delta}", (5, "sinks.0.path", "this key is required")),
        (SOURCE, "source: {topic: hits}", (2, "source.topic", "this key does not belong here; did you mean 'topics'?")),
        ("sinks:\n" + SINK, "sinks: []", (4, "sinks", "name at least 1 here")),
        (
            SINK,
            "  - {type: delta, path: t, were: x}",
            (5, "sinks.0.were", "this key is not known; did you mean 'where'"),
        ),
        (
            SINK,
            "  - {type: delta, path: t, mod: upsert}",
            (5, "sinks.0.mod", "this key is not known; known here: compact, coordinates, key, name, "),
        ),
        (
            SINK,
            "  - {type: delta, path: t, mode: upsert}",
            (5, "sinks.0.mode", "this key does not belong here; known here: compact, coordinates, key, name, "),
        ),
        (SINK, "  - {type: kafka, topic: hits}", (5, "sinks.0.topic", "the sink writes to the source's topic")),
        (SINK, "  - {type: spark, format: 'x;y', path: t}", (5, "sinks.0.format", "it does not match the form ^")),
    ],
)
def test_what_contradicts_is_refused_with_file_line_and_key(
    file: Path, line: str, instead: str, expected: tuple[int, str, str]
) -> None:
    actual = complaints(file, START.replace(line, instead))

    assert expected in [(number, key, text[: len(expected[2])]) for number, key, text in actual]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("  - {type: json, path: tables/hits}", (6, "sinks.1.path", "another sink writes to this folder")),
        ("  - {type: json, path: tables/../tables/hits}", (6, "sinks.1.path", "another sink writes to this folder")),
        ("expect:\n  - {name: a, that: hp, otherwise: explode}", (7, "expect.0.otherwise", "it must be 'dead_le")),
        ("expect:\n  - {name: '', that: hp}", (7, "expect.0.name", "it must not be shorter than 1")),
        ("batch: {max_events: 0}", (6, "batch.max_events", "it must be at least 1")),
        ("batch: {max_bytes: 1kB}", (6, "batch.max_bytes", "it must be at least 1000000")),
        ("batch: {max_wait: 2}", (6, "batch.max_wait", "write the unit too")),
        ("speed: fast", (6, "speed", "it must be 'scheduled', 'stream' or 'realtime'")),
        ("speed: steram", (6, "speed", "it must be 'scheduled', 'stream' or 'realtime'; did you mean 'stream'?")),
        ("sources: 1", (6, "sources", "this key is not known; did you mean 'source'?")),
        ('schedule: "* * * * *"', (6, "schedule", "this key is not known; it is called 'speed' here")),
        ("output: 1", (6, "output", "this key is not known; it is called 'sinks' here")),
        (
            "steps:\n  - sql: SELECT count(*) AS n FROM events",
            (7, "steps.0.sql", "'count(*) AS n': aggregates look at"),
        ),
        (
            "steps:\n  - sql: SELECT hp + 1 AS more, more * 2 AS twice FROM events",
            (7, "steps.0.sql", "'more' is made by this SELECT and cannot be used in it: use it in a second step"),
        ),
        (
            "steps:\n  - sql: SELECT *, hp + 1 AS HP FROM events",
            (7, "steps.0.sql", "the column 'hp' comes out twice: leave the old one out with * EXCEPT (hp)"),
        ),
        ("steps:\n  - sql: SELECT hp FROM other", (7, "steps.0.sql", "a step has the shape SELECT")),
        (
            "steps:\n  - sql: SELEC hp FROM events",
            (7, "steps.0.sql", "a step has the shape SELECT ... FROM events [WHERE ...], and this begins with 'SELEC'"),
        ),
        ("steps:\n  - python: rules.clean", (7, "steps.0.python", "write it as module:name, such as rules:clean")),
        ("steps:\n  - python: nowhere_at_all:f", (7, "steps.0.python", "there is no module 'nowhere_at_all'")),
        (
            "steps:\n  - {stateful: 'json:X', key: [id], returns: 'id bigint'}",
            (7, "steps.0", "state belongs to a second pipeline"),
        ),
    ],
)
def test_what_is_added_and_contradicts_is_refused_with_file_line_and_key(
    file: Path, more: str, expected: tuple[int, str, str]
) -> None:
    actual = complaints(file, START + more + "\n")

    assert expected in [(number, key, text[: len(expected[2])]) for number, key, text in actual]


@pytest.mark.parametrize(
    ("content", "key"),
    [
        pytest.param(START.replace(DECODE + "\n", ""), "decode", id="no decoder"),
        pytest.param(START.replace(SOURCE, "source: {type: delta, path: t}"), "decode", id="a decoder too many"),
        pytest.param(START + "  - {type: delta, path: other}\n", "sinks", id="two sinks of one name"),
        pytest.param(START.replace("path: tables", "name: dead, path: tables"), "sinks", id="a name that is taken"),
        pytest.param(START + "expect:\n  - {name: a, that: hp}\n  - {name: a, that: id}\n", "expect", id="two rules"),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused_at_the_part_to_change(file: Path, content: str, key: str) -> None:
    ((_, actual, _),) = complaints(file, content)

    assert key == actual.split(".")[0]


@pytest.mark.parametrize(
    ("line", "instead", "expected"),
    [
        (SOURCE, "source: hits", "`key: value` lines are needed here, such as {topics: [orders]}"),
        (SOURCE, "source: {topics: hits}", "a list is needed here, such as [orders]"),
        (
            DECODE,
            "decode: json",
            "`key: value` lines are needed here, such as {type: json, schema: 'id bigint NOT NULL, ",
        ),
        (
            DECODE,
            "decode: {type: json, schema: {id: bigint}}",
            'it must be text, such as "id bigint NOT NULL, at times',
        ),
        (SINK, "  type: delta", "a list is needed here, such as [{type: delta, path: tables/orders}]"),
        (SINK, "  - delta", "`key: value` lines are needed here, such as {type: delta, path: tables/orders}"),
        (
            SINK,
            f"{SINK}\nsteps: [select hp]",
            "sql, python, handlers, cdc, stateful, such as {sql: 'SELECT *",
        ),
        (SINK, SINK + "\nexpect: [hp > 0]", "`key: value` lines are needed here, such as {name: amount is known, that"),
        ("name: combat", "name: Game Combat", "digits and dashes, at most 63; write it as game-combat"),
    ],
)
def test_a_word_where_keys_belong_is_answered_with_an_example_of_what_does(
    file: Path, line: str, instead: str, expected: str
) -> None:
    ((_, _, actual),) = complaints(file, START.replace(line, instead))

    assert expected in actual


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param(
            "{sqll: SELECT * FROM events}",
            [("steps.0", "a step has one of the keys sql, python, handlers, cdc, stateful; did you mean 'sql'?")],
            id="typo",
        ),
        pytest.param(
            "{sql: SELECT * FROM events, foo: 1}",
            [("steps.0.foo", "this key is not known; known here: sql")],
            id="a key too many",
        ),
        pytest.param(
            "{sql: SELECT * FROM events, python: 'json:dumps'}",
            [("steps.0.python", "this key does not belong here; known here: sql")],
            id="two kinds",
        ),
        pytest.param(
            "{python: 'json:dumps', returns: x}",
            [("steps.0.returns", "'x' is not a list of columns: write as in 'id bigint NOT NULL, at timestamp'")],
            id="returns",
        ),
        pytest.param("{stateful: 'json:X', key: [id]}", [("steps.0.returns", "this key is required")], id="missing"),
    ],
)
def test_a_mistake_in_a_step_is_reported_once_and_other_kinds_of_steps_are_left_out_of_it(
    file: Path, step: str, expected: list[tuple[str, str]]
) -> None:
    actual = complaints(file, f"{START}steps:\n  - {step}\n")

    assert expected == [(key, text) for _, key, text in actual]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(START + 'dead_letters: {topic: "{topic}"}\n', id="dead letters go to the source"),
        pytest.param(START + "dead_letters: {topic: hits}\n", id="dead letters go to the source by name"),
        pytest.param(
            START.replace("topics: [hits]", "pattern: 'hits.*'").replace(SINK, "  - {type: kafka, topic: hits.low}"),
            id="the sink's topic matches the source's pattern",
        ),
        pytest.param(
            START.replace("topics: [hits]", "pattern: 'h.*'") + 'dead_letters: {topic: "hits-failed"}\n',
            id="the dead letters' topic matches the source's pattern",
        ),
        pytest.param(
            START.replace("topics: [hits]", "pattern: 'h.*'") + 'dead_letters: {topic: "{topic}-failed"}\n',
            id="the dead letters' topic may match the source's pattern",
        ),
        pytest.param(
            START.replace("topics: [hits]", "type: files, path: lines").replace(SINK, "  - {type: json, path: lines}"),
            id="files are read where they are written",
        ),
        pytest.param(
            START.replace(SINK, "  - {type: kafka, topic: hits.dead}"), id="rows go where the dead letters of hits go"
        ),
    ],
)
def test_a_pipeline_that_would_feed_itself_or_mix_letters_with_rows_is_refused(file: Path, content: str) -> None:
    assert [] != complaints(file, content)


@pytest.mark.parametrize(
    ("line", "instead", "key"),
    [
        ("", 'dead_letters: {topic: "{topc}.dead"}\n', "dead_letters.topic"),
        ("", "dead_letters: {topic: ''}\n", "dead_letters.topic"),
        ("", "expect:\n  - {name: a, that: ''}\n", "expect.0.that"),
        ("", "expect:\n  - {name: a, that: count(*) > 1}\n", "expect.0.that"),
        ("[hits]", "['']", "source.topics.0"),
        ("[hits]", "[hits], offsets: {other: {0: 5}}", "source.offsets.other"),
        ("[hits]", "[hits], offsets: {hits: {0: -5}}", "source.offsets.hits"),
        ("path: tables", "where: '', path: tables", "sinks.0.where"),
        ("path: tables", "name: ../x, path: tables", "sinks.0.name"),
        ("path: tables", "name: a/b, path: tables", "sinks.0.name"),
        ("path: tables", "name: '', path: tables", "sinks.0.name"),
        (SINK, "  - {type: kafka, topic: ''}", "sinks.0.topic"),
    ],
)
def test_what_could_only_fail_later_is_refused_at_its_key(file: Path, line: str, instead: str, key: str) -> None:
    content = START.replace(line, instead) if line else START + instead

    assert [key] == [actual for _, actual, _ in complaints(file, content)]


def test_a_comment_at_the_end_of_a_condition_is_left_out(file: Path) -> None:
    condition = "'hp > 1 -- alive'"
    file.write_text(
        f"{START}    where: {condition}\n".replace(SINK, "  - type: delta\n    path: t")
        + f"expect:\n  - {{name: a, that: {condition}}}\n"
    )

    spec = load(file)

    assert ("hp > 1", "hp > 1") == (spec.sinks[0].where, spec.expect[0].that)


def test_a_password_in_the_file_is_refused_without_repeating_it(file: Path) -> None:
    sink = "  - {type: postgres, table: t, server: {database: d, user: u, password: canary-1}}"

    ((line, key, text),) = complaints(file, START.replace(SINK, sink))

    assert (5, "sinks.0.server.password") == (line, key)
    assert "canary-1" not in text


def test_several_mistakes_give_a_line_each(file: Path) -> None:
    actual = complaints(file, START.replace("combat", "Combat").replace("bigint", "bigin") + "speed: fast\n")

    assert ["name", "decode.schema", "speed"] == [key for _, key, _ in actual]
