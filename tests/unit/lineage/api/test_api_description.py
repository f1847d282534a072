"""Answers are what the service's own description says of them, with nothing in them that it does not name."""

from typing import Any

import jsonschema
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from penstock.lineage.api.service import Service
from penstock.lineage.store import tables
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.database import migrate, open_engine

from support import lineage_history
from support.lineage_stories import write_in_batches

_SINCE = {"since": "2026-01-01T00:00:00Z"}


def _asked(client: TestClient) -> list[tuple[str, dict[str, Any]]]:
    """Return requests for everything in the store."""
    with client.app.state.service.engine.connect() as connection:  # type: ignore[attr-defined]
        ids = {
            name: [str(each) for each in connection.execute(select(table.c.id)).scalars()][:5]
            for name, table in (
                ("datasets", tables.dataset),
                ("jobs", tables.job),
                ("runs", tables.run),
                ("operations", tables.operation),
            )
        }
    lists: list[tuple[str, dict[str, Any]]]
    lists = [(f"/v1/{name}", {}) for name in ("datasets", "jobs", "locations", "tags", "jobs/types", "locations/types")]
    lists += [
        ("/v1/users/me", {}),
        ("/v1/positions", {}),
        ("/v1/runs", _SINCE),
        ("/v1/search", {"search_query": "etl"}),
    ]
    lists += [("/v1/operations", {**_SINCE, "run_id": ids["runs"]}), ("/v1/facets", {"run_id": ids["operations"]})]
    lists += [("/v1/facets", {"job_id": ids["jobs"], "dataset_id": ids["datasets"]})]
    wide = {**_SINCE, "depth": 10, "include_column_lineage": True}
    graphs = [(f"/v1/{name}/lineage", {**wide, "start_node_id": each}) for name, some in ids.items() for each in some]
    inferred = {**_SINCE, "depth": 10, "infer_from_lineage": True}
    graphs += [("/v1/jobs/hierarchy", {**inferred, "start_node_id": each}) for each in ids["jobs"]]
    refused = [(path, {**parameters, "bogus": "1"}) for path, parameters in [*lists, *graphs[:1]]]
    return [*lists, *graphs, *refused]


def test_every_answer_is_of_the_form_that_is_described(
    client: TestClient, tmp_path_factory: pytest.TempPathFactory
) -> None:
    address = StoreAddress(store=str(tmp_path_factory.mktemp("described") / "lineage.db"))
    migrate(address)
    write_in_batches(address, lineage_history.values(5, 30, malformed=0), 500)
    engine = open_engine(address)
    client.app.state.service = Service(engine, sign_in=None)  # type: ignore[attr-defined]
    described = client.get("/openapi.json").json()
    for shape in described["components"]["schemas"].values():
        if "properties" in shape:
            shape["additionalProperties"] = False

    statuses = []
    for path, parameters in _asked(client):
        answer = client.get(path, params=parameters)
        form = described["paths"][path]["get"]["responses"][str(answer.status_code)]["content"]["application/json"]
        jsonschema.validate(answer.json(), {**form["schema"], "components": described["components"]})
        statuses.append(int(answer.status_code))
    engine.dispose()

    assert {200, 422} == set(statuses)
    assert statuses.count(422) < len(statuses) / 3
