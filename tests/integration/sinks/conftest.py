import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from penstock.kafka.reader import read_all
from penstock.lab.bench.throwaway_postgres import RunningPostgres

from support.iceberg_tables import iceberg_rows
from support.pipelines import Lab
from support.sink_targets import Target, ids_of_lines


@pytest.fixture
def target(lab: Lab, request: pytest.FixtureRequest) -> Callable[[str, str], Target]:
    def made(kind: str, name: str) -> Target:
        folder = lab.folder / name
        match kind:
            case "kafka":
                topic = lab.kafka.topic(name)
                return Target(
                    {"type": kind, "topic": topic},
                    lambda: [json.loads(each.value() or b"")["id"] for each in read_all(lab.connection, topic)],
                )
            case "postgres":
                return in_postgres(request.getfixturevalue("postgres"), name)
            case "json":
                return Target({"type": kind, "path": str(folder)}, partial(ids_of_lines, folder))
            case "iceberg":
                return Target({"type": kind, "path": str(folder)}, lambda: [row["id"] for row in iceberg_rows(folder)])
        return Target({"type": kind, "path": str(folder)}, partial(lab.ids, folder))

    databases: dict[RunningPostgres, Any] = {}

    def in_postgres(postgres: RunningPostgres, name: str) -> Target:
        server = databases.setdefault(postgres, None) or postgres.database()
        databases[postgres] = server
        login = {**server.model_dump(exclude_defaults=True), "password": f"file:{postgres.password_file}"}

        def ids() -> list[int]:
            with postgres.connect(server.database) as connection:
                return [each for (each,) in connection.execute(f'SELECT id FROM "{name}"')]  # noqa: S608 - of this test

        return Target({"type": "postgres", "table": name, "server": login}, ids)

    return made
