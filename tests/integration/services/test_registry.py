"""The registry as its clients see it: Confluent's own client, and plain requests where that one hides the answer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from penstock.config.local_services import ServiceAddress, load

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
WITH_OPTIONAL = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"], "default": None}],
}
WITH_REQUIRED = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string"}]}


@pytest.fixture
def client(registry: ServiceAddress) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=registry.url, timeout=240) as opened:
        yield opened


def body(schema: object, **more: Any) -> dict[str, Any]:
    return {"schema": json.dumps(schema), **more}


def test_a_schema_that_breaks_readers_is_refused_with_the_reason_and_a_compatible_one_is_taken(
    client: httpx.Client,
) -> None:
    place = "/subjects/refused-value/versions"
    first = client.post(place, json=body(ORDER))
    refused = client.post(place, json=body(WITH_REQUIRED))
    checked = client.post("/compatibility" + place + "/latest?verbose=True", json=body(WITH_REQUIRED))
    taken = client.post(place, json=body(WITH_OPTIONAL))

    assert [200, 409, 200, 200] == [each.status_code for each in (first, refused, checked, taken)]
    assert 409 == refused.json()["error_code"]
    assert refused.json()["message"].startswith(
        'Schema being registered is incompatible with an earlier schema for subject "refused-value", details: ['
    )
    assert "note" in refused.json()["message"]
    assert checked.json()["is_compatible"] is False
    assert "note" in checked.json()["messages"][0]
    assert [1, 2] == client.get(place).json()


@pytest.fixture
def confluent(registry: ServiceAddress) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as opened:
        yield opened


def test_confluents_client_gets_what_it_expects(confluent: SchemaRegistryClient) -> None:
    order, optional, required = (Schema(json.dumps(each), "AVRO") for each in (ORDER, WITH_OPTIONAL, WITH_REQUIRED))
    subject = "confluent-value"
    made = confluent.register_schema(subject, order)
    looked_up = confluent.lookup_schema(subject, order)
    errors = []
    for asked in (
        lambda: confluent.register_schema(subject, required),
        lambda: confluent.register_schema(subject, Schema('{"type": "record"}', "AVRO")),
        lambda: confluent.lookup_schema(subject, Schema('{"type": "record"}', "AVRO")),
        lambda: confluent.lookup_schema("confluent-other", order),
        lambda: confluent.get_version(subject, 9),
        lambda: confluent.get_version(subject, "a"),  # type: ignore[arg-type]
        lambda: confluent.get_compatibility(subject),
        lambda: confluent.set_compatibility(subject, "SOME"),
    ):
        with pytest.raises(SchemaRegistryError) as raised:
            asked()
        errors.append((raised.value.http_status_code, raised.value.error_code))
    confluent.set_compatibility(subject, "FULL_TRANSITIVE")
    can_follow = [confluent.test_compatibility(subject, each) for each in (optional, required)]
    deleted = [confluent.delete_version(subject, 1), confluent.delete_version(subject, 1, permanent=True)]

    assert (made, subject, 1) == (looked_up.schema_id, looked_up.subject, looked_up.version)
    invalid, missing = (422, 42201), (404, 40401)
    assert [(409, 409), invalid, invalid, missing, (404, 40402), (422, 42202), (404, 40408), (422, 42203)] == errors
    assert [True, False] == can_follow
    assert [1, 1] == deleted
    assert subject not in confluent.get_subjects()


def test_equal_avro_schemas_that_are_written_differently_have_one_id(client: httpx.Client) -> None:
    texts = ['"string"', '{"type": "string"}', '{ "type" : "string" }']
    ids = [
        client.post(f"/subjects/equal-{number}-value/versions", json={"schema": text}).json()["id"]
        for number, text in enumerate(texts)
    ]

    assert 1 == len(set(ids))


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/subjects/nobody-value/versions", 404, 40401),
        ("/subjects/codes-value/versions/7", 404, 40402),
        ("/subjects/codes-value/versions/0", 422, 42202),
        ("/subjects/codes-value/versions/first", 422, 42202),
        ("/schemas/ids/99999", 404, 40403),
        ("/config/codes-value", 404, 40408),
    ],
)
def test_errors_have_the_codes_that_clients_look_for(client: httpx.Client, path: str, status: int, code: int) -> None:
    client.post("/subjects/codes-value/versions", json=body(ORDER))
    said = client.get(path)

    assert (status, code) == (said.status_code, said.json()["error_code"])
    assert "application/vnd.schemaregistry.v1+json" == said.headers["content-type"]


def test_schemas_are_listed_with_their_names_and_ids(client: httpx.Client) -> None:
    made = client.post("/subjects/listed%2Fdeep-value/versions", json=body(ORDER)).json()["id"]
    listed = client.get("/schemas", params={"subjectPrefix": "listed/"}).json()

    assert [("listed/deep-value", 1, made)] == [(each["subject"], each["version"], each["id"]) for each in listed]


def test_a_subject_has_to_be_deleted_softly_before_it_goes_for_good(client: httpx.Client) -> None:
    client.post("/subjects/gone-value/versions", json=body(ORDER))
    at_once = client.delete("/subjects/gone-value?permanent=true")
    softly = client.delete("/subjects/gone-value")
    for_good = client.delete("/subjects/gone-value?permanent=true")

    assert (404, 40405) == (at_once.status_code, at_once.json()["error_code"])
    assert [[1], [1]] == [softly.json(), for_good.json()]
    assert 404 == client.get("/subjects/gone-value/versions").status_code


def test_no_page_of_a_browser_gets_in_by_a_name_of_its_own_nor_at_the_port_behind(
    client: httpx.Client, registry_home: Path
) -> None:
    known = load(registry_home, "registry")
    assert known is not None
    behind = httpx.get(f"http://127.0.0.1:{known.inner_port}/apis/ccompat/v7/subjects", timeout=240)
    rebound = client.get("/subjects", headers={"Host": f"evil.example:{known.port}"})

    assert (401, 403) == (behind.status_code, rebound.status_code)
