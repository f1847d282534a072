"""What the lineage service refuses and how it says so, what browsers and metrics are told, and its description."""

import logging
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, text

from penstock.lineage.api.service import Service
from penstock.lineage.query import io

from support.lineage_rows import Rows

_SINCE = {"since": "2026-03-01T00:00:00Z"}


def _error(answer: Any, status: int) -> Any:
    assert status == answer.status_code
    return answer.json()["error"]


@pytest.mark.parametrize(
    ("path", "parameters", "location", "code"),
    [
        ("/v1/datasets", {"pagesize": "5"}, ["query", "pagesize"], "extra_forbidden"),
        ("/v1/datasets", {"page_size": "51"}, ["query", "page_size"], "less_than_equal"),
        ("/v1/datasets", {"page": "0"}, ["query", "page"], "greater_than"),
        ("/v1/datasets", {"search_query": "ab"}, ["query", "search_query"], "string_too_short"),
        ("/v1/datasets", {"dataset_id": "9223372036854775808"}, ["query", "dataset_id", 0], "less_than_equal"),
        ("/v1/jobs/types", {"x": "1"}, ["query", "x"], "extra_forbidden"),
        ("/v1/datasets/lineage", {"start_node_id": "1"}, ["query", "since"], "missing"),
        (
            "/v1/datasets/lineage",
            {**_SINCE, "start_node_id": "1", "depth": "11"},
            ["query", "depth"],
            "less_than_equal",
        ),
        ("/v1/jobs/lineage", {**_SINCE, "start_node_id": "1", "granularity": "OPERATION"}, None, "literal_error"),
        (
            "/v1/runs/lineage",
            {**_SINCE, "start_node_id": "1", "until": "2026-02-01T00:00:00Z"},
            ["query", "until"],
            "value_error",
        ),
        ("/v1/runs", {}, ["query"], "value_error"),
        ("/v1/runs", {"job_id": "1"}, ["query"], "value_error"),
        ("/v1/operations", {"run_id": str(uuid.UUID(int=1))}, ["query"], "value_error"),
        ("/v1/jobs/hierarchy", {"start_node_id": "1", "infer_from_lineage": "true"}, ["query"], "value_error"),
        ("/v1/runs", {"since": "0001-01-01T00:00:00+23:59"}, ["query", "since"], "value_error"),
        ("/v1/datasets", {"search_query": "a\x00bc"}, ["query", "search_query"], "value_error"),
        ("/v1/datasets", {"location_type": "\x00"}, ["query", "location_type", 0], "value_error"),
        ("/v1/search", {"search_query": "      "}, ["query", "search_query"], "string_too_short"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_its_place(
    client: TestClient, path: str, parameters: dict[str, str], location: list[Any] | None, code: str
) -> None:
    error = _error(client.get(path, params=parameters), 422)

    assert ("invalid_request", "Invalid request") == (error["code"], error["message"])
    assert {"location", "message", "code", "context", "input"} == set(error["details"][0])
    assert code in [each["code"] for each in error["details"]]
    if location is not None:
        assert location in [each["location"] for each in error["details"]]


def test_an_answer_without_bounds_says_what_to_ask_for(
    client: TestClient, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(io, "MOST_RELATIONS", 0)
    source = rows.dataset("source")
    rows.flow(rows.job("etl"), source, rows.dataset("target"))

    error = _error(client.get("/v1/datasets/lineage", params={**_SINCE, "start_node_id": source}), 422)

    assert "Ask for less time, less depth, or a coarser granularity" in error["message"]


def test_without_sign_in_only_this_machine_is_answered_and_nobody_has_tokens(client: TestClient) -> None:
    assert "forbidden" == _error(client.get("/v1/users/me", headers={"Host": "evil.example:8000"}), 403)["code"]
    assert {"name": "anonymous"} == client.get("/v1/users/me", headers={"Host": "[::1]:8000"}).json()
    assert "forbidden" == _error(client.post("/v1/personal-tokens", json={"name": "x"}), 403)["code"]
    assert "not_implemented" == _error(client.get("/v1/auth/login"), 501)["code"]


def test_browsers_are_told_to_guess_nothing_and_other_sites_get_no_leave(client: TestClient) -> None:
    answer = client.get("/monitoring/ping", headers={"Origin": "http://elsewhere", "X-Request-ID": "abc-1"})

    assert {"status": "ok"} == answer.json()
    assert ("nosniff", "DENY", "no-store", "abc-1") == tuple(
        answer.headers[name] for name in ("x-content-type-options", "x-frame-options", "cache-control", "x-request-id")
    )
    assert "access-control-allow-origin" not in answer.headers
    assert "a b\n" != client.get("/monitoring/ping", headers={"X-Request-ID": "a b"}).headers["x-request-id"]


def test_metrics_count_requests_by_route(client: TestClient) -> None:
    client.get("/v1/datasets", params={"page": 0})
    client.patch("/v1/locations/77", json={})
    client.get("/nowhere/<script>")

    text_ = client.get("/monitoring/metrics").text

    assert 'penstock_lineage_requests_total{method="GET",route="/v1/datasets",status="422"}' in text_
    assert 'penstock_lineage_requests_total{method="GET",route="none",status="404"}' in text_
    assert 'route="/v1/locations/{location_id}",status="422"' in text_
    assert "script" not in text_


def test_large_bodies_are_refused(client: TestClient) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(3):
            yield b" " * 40_000

    assert "request_entity_too_large" == _error(client.patch("/v1/locations/1", content=b" " * 70_000), 413)["code"]
    assert "request_entity_too_large" == _error(client.patch("/v1/locations/1", content=endless()), 413)["code"]


def test_a_store_that_is_away_is_told_as_such(app_of_this_machine: FastAPI) -> None:
    engine = create_engine("postgresql+psycopg://nobody@127.0.0.1:1/nothing")
    app_of_this_machine.state.service = Service(engine, sign_in=None)
    answer = TestClient(app_of_this_machine, base_url="http://127.0.0.1").get("/v1/datasets")

    assert "unavailable" == _error(answer, 503)["code"]
    assert answer.headers["retry-after"]


def test_a_defect_tells_nothing_of_itself_to_the_client(
    client: TestClient, rows: Rows, caplog: pytest.LogCaptureFixture
) -> None:
    with rows.engine.begin() as connection:
        connection.execute(text("DROP TABLE dataset_tag"))
    rows.dataset("table")

    with caplog.at_level(logging.CRITICAL, "penstock"):
        answer = client.get("/v1/datasets")

    assert answer.status_code in {500, 503}
    assert "dataset_tag" not in answer.text


def test_the_description_is_complete(client: TestClient) -> None:
    described = client.get("/openapi.json").json()

    paths = {f"{method.upper()} {path}" for path, each in described["paths"].items() for method in each}
    assert {
        "GET /monitoring/ping",
        "GET /monitoring/metrics",
        "POST /v1/auth/token",
        "GET /v1/auth/callback",
        "GET /v1/auth/logout",
        "GET /v1/datasets",
        "GET /v1/datasets/lineage",
        "GET /v1/jobs",
        "GET /v1/jobs/lineage",
        "GET /v1/jobs/types",
        "GET /v1/jobs/hierarchy",
        "GET /v1/locations",
        "PATCH /v1/locations/{location_id}",
        "GET /v1/locations/types",
        "GET /v1/operations",
        "GET /v1/operations/lineage",
        "GET /v1/runs",
        "GET /v1/runs/lineage",
        "GET /v1/users/me",
        "GET /v1/personal-tokens",
        "POST /v1/personal-tokens",
        "PATCH /v1/personal-tokens/{token_id}",
        "DELETE /v1/personal-tokens/{token_id}",
        "GET /v1/tags",
    } <= paths
    undescribed = [
        f"{name}.{field}"
        for name, shape in described["components"]["schemas"].items()
        for field, value in shape.get("properties", {}).items()
        if "description" not in value and "Validation" not in name
    ]
    assert [] == undescribed
    parameters = [
        p for path in described["paths"].values() for each in path.values() for p in each.get("parameters", [])
    ]
    assert [] == [each["name"] for each in parameters if "description" not in each]
    operations = {(path, method): each for path, all_ in described["paths"].items() for method, each in all_.items()}
    # With whatever nobody here can cause: a store that is away, a defect.
    every = {"403", "413", "422"}
    of_the_store = every | {"401", "500", "503"}
    assert [] == [
        which
        for which, each in operations.items()
        if not (every if which[0].startswith("/monitoring") else of_the_store) <= each["responses"].keys()
    ]
    assert [] == [which for which, each in operations.items() if not (each.get("summary") and each.get("description"))]
    errors = [
        answer["content"]["application/json"]["schema"]
        for each in operations.values()
        for status, answer in each["responses"].items()
        if int(status) >= 400
    ]
    assert [{"$ref": "#/components/schemas/ErrorAnswer"}] * len(errors) == errors


@pytest.mark.parametrize("value", ["1" * 30, '"\\ud800"'], ids=["a number beyond 64 bits", "half a character"])
def test_what_no_answer_can_repeat_is_refused_all_the_same(client: TestClient, value: str) -> None:
    body = f'{{"external_id": {value}}}'

    assert "invalid_request" == _error(client.patch("/v1/locations/1", content=body), 422)["code"]
