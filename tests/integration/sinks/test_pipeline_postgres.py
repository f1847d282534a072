"""Pipelines into PostgreSQL when the world changes under them: noticed, told, and fixed by one command."""

from contextlib import ExitStack
from typing import Any

import pytest
import yaml

from penstock.config import settings
from penstock.driver.paths import Progress
from penstock.errors import PositionLost
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.operate import range_replay, repair
from penstock.sinks import postgres as module
from penstock.sinks.postgres_server import Server

from support.pipelines import Lab
from support.postgres_driver import ask, hung

IDS = "SELECT id FROM landed ORDER BY id"


def sink(server: Server, postgres: RunningPostgres, **parts: Any) -> dict[str, Any]:
    login = {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}
    return {"type": "postgres", "table": "landed", "server": login, **parts}


@pytest.mark.parametrize(
    ("change", "table"),
    [
        pytest.param("DROP TABLE landed", "landed", id="dropped"),
        pytest.param("TRUNCATE landed", "landed", id="truncated"),
        pytest.param(
            "DELETE FROM landed WHERE id > 1; CREATE TABLE older AS SELECT * FROM landed", "older", id="older"
        ),
    ],
)
def test_a_table_that_is_gone_stops_the_pipeline_and_a_rebuild_fills_it_once(
    lab: Lab, postgres: RunningPostgres, change: str, table: str
) -> None:
    topic = lab.kafka.topic("gone", partitions=2)
    server = postgres.database()
    lab.send_ids(topic, range(3))
    lab.send_ids(topic, [10], partition=1)
    lab.run(lab.spec(topic, sinks=[sink(server, postgres)]))
    lab.send_ids(topic, range(3, 5))
    ask(server, change)
    spec = lab.spec(topic, sinks=[sink(server, postgres, table=table)])

    with pytest.raises(PositionLost, match=f"penstock pipeline rebuild {topic}"):
        lab.run(spec)
    with lab.runner(spec) as runner:
        repair.rebuild(runner)
    lab.run(spec)

    assert [(each,) for each in (0, 1, 2, 3, 4, 10)] == ask(server, IDS.replace("landed", table))


def test_a_server_that_hangs_is_waited_for_and_reported_and_then_gets_every_event_once(
    lab: Lab, postgres: RunningPostgres
) -> None:
    topic = lab.kafka.topic("hangs")
    server = postgres.database().model_copy(update={"statement_timeout": 1000})
    lab.send_ids(topic, range(6))
    spec = lab.spec(topic, sinks=[sink(server, postgres)], batch={"max_events": 2})
    told: list[str] = []

    with ExitStack() as stack, lab.runner(spec) as runner:

        def tell(progress: Progress) -> None:
            if progress.waiting_for:
                told.append(progress.waiting_for)
                stack.close()
            elif not told:
                stack.enter_context(hung(postgres))

        runner.run(tell)

    assert "does not answer" in told[0]
    assert [(number,) for number in range(6)] == ask(server, IDS)


@pytest.mark.parametrize("dies_at", ["all", "newest"])
def test_a_replay_that_dies_inside_of_a_commit_goes_on_and_replaces_each_row_once(
    lab: Lab, postgres: RunningPostgres, monkeypatch: pytest.MonkeyPatch, dies_at: str
) -> None:
    topic = lab.kafka.topic("replaced")
    server = postgres.database()
    sinks = [
        sink(server, postgres, name="all"),
        sink(server, postgres, name="newest", table="kept", mode="upsert", key=["id"]),
    ]
    old, new = ([{"sql": f"SELECT id, '{name}' AS name FROM events"}] for name in ("old", "new"))  # noqa: S608
    lab.send_ids(topic, [0, 1, 2, 0, 1, 3, 4, 5])
    lab.run(lab.spec(topic, sinks=sinks, steps=old))
    file = lab.folder / "changed.yaml"
    file.write_text(yaml.safe_dump(lab.document(topic, sinks=sinks, steps=new, batch={"max_events": 3})))
    given = settings.load(home=lab.kafka.home)
    begun = range_replay.begin(given, file, "0", "7", {}, replace=True)
    commits: list[str] = []

    def die_in_the_second_batch(point: str, name: str) -> None:
        commits.append(f"{point} {name}")
        if commits.count(f"in_commit {dies_at}") == 2:
            raise KeyboardInterrupt

    def go_on() -> None:
        range_replay.run(given, range_replay.find(given, topic, begun.range.id), show=lambda _status: None)

    with monkeypatch.context() as patch:
        patch.setattr(module, "crash_point", die_in_the_second_batch)
        with pytest.raises(KeyboardInterrupt):
            go_on()
    half = ask(server, "SELECT id FROM kept ORDER BY id")
    go_on()
    lab.send_ids(topic, [6])
    lab.run(lab.spec(topic, sinks=sinks, steps=old))

    assert [(number,) for number in range(6)] == half
    names = ["new"] * 7 + ["old", "old"]
    assert list(enumerate(names)) == ask(server, "SELECT _offset, name FROM landed ORDER BY _offset")
    assert [(0, "new"), (1, "new"), (2, "new"), (3, "new"), (4, "new"), (5, "old"), (6, "old")] == ask(
        server, "SELECT id, name FROM kept ORDER BY id"
    )
