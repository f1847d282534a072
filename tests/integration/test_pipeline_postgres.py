"""Pipelines into PostgreSQL when the world changes under them: noticed, told, and mended by one command."""

from typing import Any

import pytest

from penstock.bench.throwaway_postgres import RunningPostgres
from penstock.engine import upkeep
from penstock.errors import PositionLost
from penstock.sinks.postgres_server import Server

from support.pipelines import Lab
from support.postgres_driver import ask

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
        upkeep.rebuild(runner)
    lab.run(spec)

    assert [(each,) for each in (0, 1, 2, 3, 4, 10)] == ask(server, IDS.replace("landed", table))
