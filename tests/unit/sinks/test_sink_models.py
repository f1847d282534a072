"""What the models of sinks say of themselves, and what `pipeline check` makes of it."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from penstock.errors import BadInput
from penstock.operate.replay_target import require_replaceable, with_other_targets
from penstock.pipeline.check import problems
from penstock.pipeline.spec import SINKS, PipelineSpec

KAFKA: dict[str, Any] = {"source": {"topics": ["in"]}, "decode": {"type": "text"}}
NESTED: dict[str, Any] = {
    "source": {"topics": ["in"]},
    "decode": {"type": "json", "schema": "id bigint, tags array<string>, place struct<x: int>"},
}
FILES: dict[str, Any] = {"source": {"type": "files", "path": "/data/in"}, "decode": {"type": "text"}}
STATEFUL: dict[str, Any] = {"source": {"type": "delta", "path": "/data/in"}}
SERVER = {"database": "app", "user": "app"}
NO_MERGE = "cannot take results that change: use delta, iceberg, postgres or console"


def spec(parts: dict[str, Any], *sinks: dict[str, Any]) -> PipelineSpec:
    return PipelineSpec.model_validate({"name": "p", **parts, "sinks": list(sinks)})


@pytest.mark.parametrize(
    ("parts", "sink", "expected"),
    [
        (KAFKA, {"type": "kafka", "topic": "in"}, ["topic: the sink writes to the source's topic: it would never end"]),
        (
            KAFKA,
            {"type": "kafka", "topic": "a b"},
            ["topic: a topic's name has letters, digits, dots, dashes and underscores, at most 249"],
        ),
        (
            FILES,
            {"type": "kafka", "topic": "out"},
            ["type: of events that are not in Kafka, Kafka cannot keep a position: land them in a table first"],
        ),
        (
            FILES,
            {"type": "json", "path": "/data/x/../in"},
            ["path: the sink writes to the source's folder: it would never end"],
        ),
        (
            KAFKA,
            {"type": "delta", "path": "/data/t", "key": ["text"], "coordinates": False},
            ["coordinates: which row of a key is the newest, only `coordinates` tell"],
        ),
        (
            NESTED,
            {"type": "delta", "path": "/data/t", "key": ["id", "tags"]},
            ["key: rows cannot be told apart by 'tags', which is list<item: string>: name other columns"],
        ),
        (
            NESTED,
            {"type": "iceberg", "path": "/data/t", "key": ["place"]},
            ["key: rows cannot be told apart by 'place', which is struct<x: int32>: name other columns"],
        ),
        (
            NESTED,
            {"type": "delta", "path": "/data/t", "key": ["nr"], "partition_by": ["id", "days(at)"]},
            [
                "key: there is no column 'nr'. There are id, tags, place",
                "partition_by: there is no column 'at'. There are id, tags, place",
            ],
        ),
        (
            NESTED,
            {"type": "postgres", "table": "t", "server": SERVER, "mode": "upsert", "key": ["nr"]},
            ["key: there is no column 'nr'. There are id, tags, place"],
        ),
        (KAFKA, {"type": "delta", "path": "/data/t"}, []),
        (KAFKA, {"type": "delta", "path": "/data/t", "key": ["text"]}, []),
        (KAFKA, {"type": "console"}, ["type: `console` is at least once: a crash can double rows"]),
        (
            KAFKA,
            {"type": "spark", "format": "orc", "path": "/data/t"},
            ["type: `spark` is at least once: a crash can double rows"],
        ),
        (
            KAFKA,
            {"type": "iceberg", "path": "/data/t", "catalog": {"url": "http://catalog", "token": "env:TOKEN"}},
            [
                (
                    "catalog: url: any server that answers gets the secret: use https, or"
                    " `sslmode=verify-full` for PostgreSQL"
                )
            ],
        ),
        (KAFKA, {"type": "iceberg", "path": "/data/t"}, []),
        (STATEFUL, {"type": "iceberg", "path": "/data/t"}, ["results that change need a `key` to be merged by"]),
        (STATEFUL, {"type": "iceberg", "path": "/data/t", "key": ["id"], "coordinates": False}, []),
        (STATEFUL, {"type": "json", "path": "/data/t"}, [f"`json` {NO_MERGE}"]),
        (STATEFUL, {"type": "kafka", "topic": "out"}, [f"`kafka` {NO_MERGE}"]),
        (STATEFUL, {"type": "delta", "path": "/data/t", "key": ["id"]}, []),
        (STATEFUL, {"type": "delta", "path": "/data/t"}, ["results that change need a `key` to be merged by"]),
        (
            STATEFUL,
            {"type": "delta", "path": "/data/in", "key": ["id"]},
            ["path: the sink writes to the source's folder: it would never end"],
        ),
        (
            STATEFUL,
            {"type": "postgres", "table": "t", "server": SERVER},
            ["results that change need `mode: upsert` and a `key`"],
        ),
        (STATEFUL, {"type": "postgres", "table": "t", "server": SERVER, "mode": "upsert", "key": ["id"]}, []),
        (STATEFUL, {"type": "console"}, ["type: `console` is at least once: a crash can double rows"]),
    ],
)
def test_what_is_wrong_with_a_sink_in_its_pipeline_is_told_at_its_key(
    parts: dict[str, Any], sink: dict[str, Any], expected: list[str]
) -> None:
    found = problems(spec(parts, sink), Path())

    assert expected == [": ".join([*map(str, each.keys[2:]), each.text]) for each in found]
    assert {("sinks", 0)} >= {each.keys[:2] for each in found}


def test_a_column_that_is_not_there_keeps_a_pipeline_from_starting_unless_a_step_may_return_it() -> None:
    sink = {"type": "delta", "path": "/data/t", "key": ["plase"]}
    step = {"sql": "SELECT * FROM events"}

    found = [*problems(spec(NESTED, sink), Path()), *problems(spec({**NESTED, "steps": [step]}, sink), Path())]

    text = "there is no column 'plase'. Did you mean 'place'? There are id, tags, place"
    assert [("error", text), ("warning", text)] == [(each.level, each.text) for each in found]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("password", "canary-55"),
        ("fs.s3a.secret.key", "canary-55"),
        ("url", "jdbc:postgresql://app:canary-55@db/app"),
        ("url", "jdbc:postgresql://db/app?user=app&password=canary-55"),
    ],
)
def test_a_secret_among_options_that_spark_may_show_is_refused_and_not_repeated(option: str, value: str) -> None:
    sink = {"type": "spark", "format": "orc", "path": "/data/t", "options": {"compression": "zlib", option: value}}

    with pytest.raises(ValidationError, match=f"the option '{option}' holds a secret") as caught:
        spec(KAFKA, sink)

    assert "canary-55" not in str(caught.value)


def test_each_sink_says_what_it_can_do() -> None:
    told = {
        name: (model.guarantee, model.can_replace, model.can_merge, model.target_key)
        for name, model in SINKS.built_in.items()
    }

    assert told == {
        "delta": ("exactly once", True, True, "path"),
        "iceberg": ("exactly once", True, True, "path"),
        "json": ("exactly once", False, False, "path"),
        "postgres": ("exactly once", True, True, "table"),
        "kafka": ("exactly once", False, False, "topic"),
        "console": ("at least once", False, True, None),
        "spark": ("at least once", False, False, "path"),
    }


@pytest.mark.parametrize("target", ["other", "schema.other"])
def test_a_replay_may_write_to_another_table_of_the_same_server(target: str) -> None:
    sink = {"type": "postgres", "table": "t", "server": SERVER}

    (moved,) = with_other_targets(spec(KAFKA, sink), {"postgres": target}, Path("/data")).sinks

    assert f"127.0.0.1:5432/app/{target}" == getattr(moved.target(), "name", None)


@pytest.mark.parametrize(
    ("into", "told"),
    [
        ({"postgres": "t"}, "sink 'postgres' writes there already"),
        ({"postgres": "no table"}, "--into postgres=no table: that is not a valid table"),
        ({"console": "x"}, "a `console` sink has no target to change"),
        ({"delta": "/data/t", "json": "/data/t"}, "another sink writes to this folder"),
        ({"kafka": "in"}, "the sink writes to the source's topic"),
    ],
)
def test_a_target_that_a_replay_cannot_have_is_refused(into: dict[str, str], told: str) -> None:
    listed: list[dict[str, Any]] = [
        {"type": "postgres", "table": "t", "server": SERVER},
        {"type": "console"},
        {"type": "delta", "path": "/data/delta"},
        {"type": "json", "path": "/data/json"},
        {"type": "kafka", "topic": "out"},
    ]

    with pytest.raises(BadInput, match=told):
        with_other_targets(spec(KAFKA, *listed), into, Path("/data"))


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ({"type": "kafka", "topic": "out"}, "a `kafka` sink cannot replace what it has written"),
        ({"type": "delta", "path": "/data/t", "coordinates": False}, "a table without `coordinates` does not know"),
    ],
)
def test_a_sink_that_cannot_replace_rows_is_refused(sink: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        require_replaceable(spec(KAFKA, sink).sinks[0])


@pytest.mark.parametrize("sink", ["delta", "iceberg", "json"])
def test_an_address_is_no_folder_that_would_be_made_beside_the_file(sink: str) -> None:
    with pytest.raises(ValidationError, match="a path on a disk is needed here, and s3:// begins an address"):
        spec(KAFKA, {"type": sink, "path": "s3://bucket/orders"})
