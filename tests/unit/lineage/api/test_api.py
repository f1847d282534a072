"""What the lineage service answers about what its store holds."""

import datetime
import uuid
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient

from penstock.lineage.shapes.lineage import Lineage
from penstock.lineage.store import tables

from support.lineage_rows import NOON, Rows

_SINCE = {"since": "2026-03-01T00:00:00Z"}


def _error(answer: Any, status: int) -> Any:
    assert status == answer.status_code
    return answer.json()["error"]


def test_a_dataset_is_answered_with_its_location_tags_and_latest_schema(client: TestClient, rows: Rows) -> None:
    number = rows.dataset("Orders", rows.location("hive", "metastore:9083"))
    digest = uuid.uuid4()
    schema = rows.put(tables.schema, digest=digest, fields=[{"name": "id", "type": "int"}])[0]
    rows.put(tables.dataset_schema, dataset_id=number, schema_digest=digest, first_seen_at=NOON, last_seen_at=NOON)
    tag = rows.put(tables.tag, name="team")[0]
    value = rows.put(tables.tag_value, tag_id=tag, value="sales")[0]
    rows.put(tables.dataset_tag, dataset_id=number, tag_value_id=value)

    location = {
        "id": "1",
        "type": "hive",
        "name": "metastore:9083",
        "addresses": [{"url": "hive://metastore:9083"}],
        "external_id": None,
    }
    fields: list[dict[str, object]] = [{"name": "id", "type": "int", "description": None, "fields": []}]
    assert {
        "meta": {
            "page": 1,
            "page_size": 20,
            "total_count": 1,
            "pages_count": 1,
            "has_next": False,
            "has_previous": False,
            "next_page": None,
            "previous_page": None,
        },
        "items": [
            {
                "id": str(number),
                "data": {
                    "id": str(number),
                    "location": location,
                    "name": "Orders",
                    "external_id": None,
                    "external_url": None,
                    "schema": {"id": str(schema), "fields": fields, "relevance_type": "EXACT_MATCH"},
                },
                "tags": [{"id": tag, "name": "team", "values": [{"id": value, "value": "sales"}]}],
            }
        ],
    } == client.get("/v1/datasets").json()


def test_lists_come_in_pages(client: TestClient, rows: Rows) -> None:
    for number in range(5):
        rows.dataset(f"table_{number}")

    second = client.get("/v1/datasets", params={"page": 2, "page_size": 2}).json()
    beyond = client.get("/v1/datasets", params={"page": 9, "page_size": 2}).json()

    assert ["table_2", "table_3"] == [each["data"]["name"] for each in second["items"]]
    assert (5, 3, 3, 1) == tuple(
        second["meta"][key] for key in ("total_count", "pages_count", "next_page", "previous_page")
    )
    assert [] == beyond["items"]


def test_filters_of_datasets_narrow_what_is_found(client: TestClient, rows: Rows) -> None:
    orders, other = rows.dataset("sales.Orders", rows.location("hive", "meta")), rows.dataset("orders_topic")
    tag = rows.put(tables.tag, name="team")[0]
    values = [rows.put(tables.tag_value, tag_id=tag, value=value)[0] for value in ("a", "b")]
    for value in values:
        rows.put(tables.dataset_tag, dataset_id=orders, tag_value_id=value)
    rows.put(tables.dataset_tag, dataset_id=other, tag_value_id=values[0])

    def found(**parameters: Any) -> list[str]:
        return [each["id"] for each in client.get("/v1/datasets", params=parameters).json()["items"]]

    assert [str(other), str(orders)] == found(search_query="ORDERS")
    assert [str(orders)] == found(search_query="orders sales")
    assert [str(orders)] == found(search_query="hive://meta")
    assert [] == found(search_query="100%")
    assert [str(orders)] == found(location_type="hive")
    assert [str(other)] == found(dataset_id=other)
    assert [str(orders)] == found(tag_value_id=values)
    assert [str(other), str(orders)] == found(tag_value_id=values[:1])


def test_a_job_comes_with_its_last_run(client: TestClient, rows: Rows) -> None:
    job = rows.job("Etl")
    child = rows.job("etl.step", None, parent=job)
    rows.run(job, NOON - datetime.timedelta(hours=1))
    last = rows.run(job, NOON, status=2, started_by="ann")

    [etl, step] = client.get("/v1/jobs").json()["items"]

    assert (str(job), str(last), "FAILED", {"name": "ann"}) == (
        etl["id"],
        etl["last_run"]["id"],
        etl["last_run"]["status"],
        etl["last_run"]["started_by_user"],
    )
    assert ("UNKNOWN", str(job), None) == (step["data"]["type"], step["data"]["parent_job_id"], step["last_run"])
    assert {"job_types": ["SPARK_APPLICATION", "UNKNOWN"]} == client.get("/v1/jobs/types").json()
    unknown = client.get("/v1/jobs", params={"job_type": "UNKNOWN"}).json()["items"]
    assert [str(child)] == [each["id"] for each in unknown]


def test_runs_are_filtered_and_come_with_what_they_read_and_wrote(client: TestClient, rows: Rows) -> None:
    job, source, target = rows.job("etl"), rows.dataset("source"), rows.dataset("target")
    run, _ = rows.flow(job, source, target, num_rows=4, num_bytes=100)
    failed = rows.run(job, NOON + datetime.timedelta(hours=1), status=2, external_id="application_7")

    def found(**parameters: Any) -> list[str]:
        return [each["id"] for each in client.get("/v1/runs", params={**_SINCE, **parameters}).json()["items"]]

    assert [str(failed), str(run)] == found()
    assert [str(failed)] == found(status=["FAILED", "KILLED"])
    assert [str(failed)] == found(search_query="APPLICATION_7")
    assert [str(failed), str(run)] == found(search_query="etl", job_id=job, job_type="SPARK_APPLICATION")
    assert [] == found(started_by_user="bob")
    assert [str(run)] == found(until=NOON.isoformat())
    [told] = client.get("/v1/runs", params={"run_id": str(run)}).json()["items"]
    assert ("etl", {"total_operations": 1}) == (told["job"]["name"], told["statistics"]["operations"])
    assert {"total_datasets": 1, "total_bytes": 100, "total_rows": 4, "total_files": 0} == told["statistics"]["inputs"]


def test_operations_come_with_what_they_read_and_wrote(client: TestClient, rows: Rows) -> None:
    job, source, target = rows.job("etl"), rows.dataset("source"), rows.dataset("target")
    run, operation = rows.flow(job, source, target, num_files=2)

    [by_run] = client.get("/v1/operations", params={**_SINCE, "run_id": str(run)}).json()["items"]
    [by_id] = client.get("/v1/operations", params={"operation_id": str(operation)}).json()["items"]

    assert by_run == by_id
    assert (str(operation), "BATCH", 2) == (
        by_id["id"],
        by_id["data"]["type"],
        by_id["statistics"]["outputs"]["total_files"],
    )


def test_a_lineage_answer_has_the_shape_that_is_described(client: TestClient, rows: Rows) -> None:
    job, source, target = rows.job("etl"), rows.dataset("source"), rows.dataset("target")
    run, operation = rows.flow(job, source, target, num_rows=4)

    for path, start in (("datasets", target), ("jobs", job), ("runs", run), ("operations", operation)):
        answer = client.get(f"/v1/{path}/lineage", params={**_SINCE, "start_node_id": str(start), "depth": 2})

        assert 200 == answer.status_code
        assert answer.json() == Lineage.model_validate(answer.json()).model_dump(mode="json", by_alias=True)
    assert "2026-03-01T12:00:00Z" == answer.json()["relations"]["inputs"][0]["last_interaction_at"]
    only_datasets = {**_SINCE, "start_node_id": str(target), "granularity": "DATASET"}
    answer = client.get("/v1/datasets/lineage", params=only_datasets)
    assert answer.json() == Lineage.model_validate(answer.json()).model_dump(mode="json", by_alias=True)
    assert answer.json()["relations"]["inputs"]


def test_a_hierarchy_has_parents_dependencies_and_what_lineage_shows(client: TestClient, rows: Rows) -> None:
    dag = rows.job("dag", "AIRFLOW_DAG")
    first, second = rows.job("first", parent=dag), rows.job("second", parent=dag)
    after, reader = rows.job("after"), rows.job("reader")
    rows.put(tables.job_dependency, from_job_id=first, to_job_id=second, type="DIRECT_DEPENDENCY")
    rows.put(tables.job_dependency, from_job_id=second, to_job_id=after, type="DIRECT_DEPENDENCY")
    table, files = rows.dataset("table"), rows.dataset("/files")
    rows.symlink(table, files)
    rows.flow(after, rows.dataset("begin"), table)
    rows.flow(reader, files, rows.dataset("end"))

    def asked(**parameters: Any) -> tuple[set[tuple[str, str]], set[tuple[str, str, str]]]:
        answer = client.get("/v1/jobs/hierarchy", params=parameters).json()
        told = answer["relations"]
        ends = {end["id"] for each in told["parents"] + told["dependencies"] for end in (each["from"], each["to"])}
        assert ends <= set(answer["nodes"]["jobs"])
        return (
            {(each["from"]["id"], each["to"]["id"]) for each in told["parents"]},
            {(each["from"]["id"], each["to"]["id"], each["type"]) for each in told["dependencies"]},
        )

    parents, one_step = asked(start_node_id=second, direction="DOWNSTREAM")
    _, deeper = asked(start_node_id=second, direction="DOWNSTREAM", depth=9, infer_from_lineage=True, **_SINCE)

    assert {(str(dag), str(second))} == parents
    assert {(str(second), str(after), "DIRECT_DEPENDENCY")} == one_step
    assert (str(first), str(second), "DIRECT_DEPENDENCY") in asked(start_node_id=second)[1]
    assert (str(after), str(reader), "INFERRED_FROM_LINEAGE") in deeper


def test_a_location_is_given_an_id_of_another_catalogue_and_loses_it(client: TestClient, rows: Rows) -> None:
    rows.dataset("table")

    given = client.patch("/v1/locations/1", json={"external_id": "42"}).json()
    kept = client.get("/v1/locations").json()["items"]
    taken = client.patch("/v1/locations/1", json={"external_id": None}).json()
    error = _error(client.patch("/v1/locations/7", json={"external_id": "42"}), 404)
    misspelt = _error(client.patch("/v1/locations/1", json={"externalid": "42"}), 422)
    _error(client.patch("/v1/locations/1", json={"external_id": "\x00"}), 422)

    assert ("42", [given], None) == (given["data"]["external_id"], kept, taken["data"]["external_id"])
    assert {"datasets": {"total_datasets": 1}, "jobs": {"total_jobs": 0}} == given["statistics"]
    assert ("not_found", {"entity_type": "Location", "field": "id", "value": 7}) == (error["code"], error["details"])
    assert "invalid_request" == misspelt["code"]
    assert {"location_types": ["kafka"]} == client.get("/v1/locations/types").json()


def test_tags_are_found_by_name_and_by_value(client: TestClient, rows: Rows) -> None:
    tag = rows.put(tables.tag, name="spark.version")[0]
    value = rows.put(tables.tag_value, tag_id=tag, value="3.5.4")[0]

    expected = [{"id": tag, "data": {"id": tag, "name": "spark.version", "values": [{"id": value, "value": "3.5.4"}]}}]
    for query in ("SPARK", "3.5"):
        assert expected == client.get("/v1/tags", params={"search_query": query}).json()["items"]
    assert [] == client.get("/v1/tags", params={"search_query": "flink"}).json()["items"]


def test_a_search_finds_everything_that_has_a_name(client: TestClient, rows: Rows) -> None:
    dataset, job = rows.dataset("daily_orders"), rows.job("orders")
    run = rows.run(job, external_id="orders_2026-03-01")
    rows.put(tables.user, name="orders-bot")

    def found(**parameters: Any) -> list[tuple[str, str]]:
        items = client.get("/v1/search", params={"search_query": "orders", **parameters}).json()["items"]
        return [(each["kind"], each["id"]) for each in items]

    assert [("JOB", str(job)), ("USER", "1"), ("DATASET", str(dataset)), ("RUN", str(run))] == found()
    assert [("DATASET", str(dataset))] == found(kind="DATASET")


def test_facets_that_nobody_knows_are_answered_as_they_came(client: TestClient, rows: Rows) -> None:
    job, dataset = rows.job("etl"), rows.dataset("table")
    run = rows.run(job)
    rows.put(tables.run_facet, run_id=run, name="one", value='{"a": 1}', seen_at=NOON)
    rows.put(tables.job_facet, job_id=job, name="two", value="[]", seen_at=NOON)
    rows.put(tables.dataset_facet, dataset_id=dataset, name="three", value='"text"', seen_at=NOON)

    def found(**parameters: Any) -> list[tuple[Any, ...]]:
        items = client.get("/v1/facets", params=parameters).json()["items"]
        assert {"2026-03-01T12:00:00Z"} >= {each["seen_at"] for each in items}
        return [(each["kind"], each["id"], each["name"], each["value"]) for each in items]

    of_run = ("RUN", str(run), "one", {"a": 1})
    assert [of_run] == found(run_id=str(run))
    assert [("DATASET", str(dataset), "three", "text"), ("JOB", str(job), "two", [])] == found(
        job_id=job, dataset_id=dataset
    )
    assert [] == found(run_id=str(run), name="other")


def test_batches_tell_which_offsets_a_dataset_was_written_from(client: TestClient, rows: Rows) -> None:
    job, topic, table = rows.job("landing.batch"), rows.dataset("topic"), rows.dataset("table")
    _, operation = rows.flow(job, topic, table, num_rows=10)
    rows.flow(rows.job("other"), topic, table)
    offsets = [{"topic": "orders", "partition": 0, "start": 0, "end": 10}]
    value = orjson.dumps({"batch": 3, "offsets": offsets}).decode()
    rows.put(tables.run_facet, run_id=operation, name="penstock_batch", value=value, seen_at=NOON)

    [batch] = client.get("/v1/batches", params={**_SINCE, "dataset_id": table}).json()["items"]

    assert {
        "run_id": str(operation),
        "job_id": str(job),
        "written_at": "2026-03-01T12:00:00Z",
        "num_rows": 10,
        "batch": 3,
        "offsets": offsets,
    } == batch


@pytest.mark.parametrize("value", ['{"a":1e999999}', '{"a":' + "9" * 400 + "}", "[" * 500 + "]" * 500])
def test_a_facet_that_no_answer_can_repeat_is_answered_as_its_text(client: TestClient, rows: Rows, value: str) -> None:
    number = rows.dataset("orders")
    for name, each in (("house", '{"a":1}'), ("odd", value)):
        rows.put(tables.dataset_facet, dataset_id=number, name=name, value=each, seen_at=NOON)

    found = client.get("/v1/facets", params={"dataset_id": number}).json()["items"]

    assert [("house", {"a": 1}), ("odd", value)] == [(each["name"], each["value"]) for each in found]


@pytest.mark.parametrize(
    "value", ['"x"', "[1]", "null", "1e999999", '{"batch":"many"}', '{"batch":1,"offsets":5}', '{"offsets":[{}]}']
)
def test_a_batch_that_is_not_said_as_ours_are_costs_the_others_nothing(
    client: TestClient, rows: Rows, value: str
) -> None:
    job, source, target = rows.job("pipeline"), rows.dataset("source"), rows.dataset("target")
    offsets = [{"topic": "t", "topicId": "id", "partition": 0, "start": 0, "end": 5}]
    ours = orjson.dumps({"batch": 7, "offsets": offsets}).decode()
    for minute, each in enumerate((value, ours)):
        _, operation = rows.flow(job, source, target, NOON + datetime.timedelta(minutes=minute))
        rows.put(tables.run_facet, run_id=operation, name="penstock_batch", value=each, seen_at=NOON)

    found = client.get("/v1/batches", params={"dataset_id": target, **_SINCE}).json()["items"]

    assert [(7, offsets), (None, [])] == [(each["batch"], each["offsets"]) for each in found]


def test_positions_say_how_far_the_store_is_filled(client: TestClient, rows: Rows) -> None:
    key = {"pipeline": "lineage", "sink": "store", "topic_id": "x", "partition": 0}
    rows.put(tables.position, **key, topic="input.runs", next_offset=5)

    expected = {"pipeline": "lineage", "sink": "store", "topic": "input.runs", "partition": 0, "next_offset": 5}
    assert [expected] == client.get("/v1/positions").json()
