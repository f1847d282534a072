"""What the events of each producer say: jobs, runs, operations, and what these read and write."""

import datetime
import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest

from penstock.lineage.collected import Facts
from penstock.lineage.events import parse
from penstock.lineage.extract import Extractor
from penstock.lineage.facts import ColumnUse, Status, WriteKind

from support import lineage_samples as samples


def facts_of(events: Iterable[dict[str, Any]]) -> Facts:
    extractor = Extractor()
    for each in events:
        extractor.add(parse(json.dumps(each).encode()))
    return extractor.facts


def jobs(facts: Facts) -> dict[str, tuple[str | None, str | None]]:
    """Return each job's type and parent, by name."""
    return {each.name: (each.type, each.parent and each.parent.name) for each in facts.jobs.values()}


def tags(facts: Facts) -> set[tuple[str, str, str]]:
    return {(each.job.name, each.name, each.value) for each in facts.job_tags}


def at(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC)


def test_airflow_has_a_dag_with_tasks_and_says_why_one_failed() -> None:
    facts = facts_of(samples.AIRFLOW)

    expected_jobs = {
        "orders_daily": ("AIRFLOW_DAG", None),
        "orders_daily.load_orders": ("AIRFLOW_TASK", "orders_daily"),
        "orders_daily.wait_for_files": (None, None),
        "orders_daily.notify": (None, None),
    }
    assert expected_jobs == jobs(facts)
    dag, task = facts.runs[UUID(samples.DAG_RUN)], facts.runs[UUID(samples.TASK_RUN)]
    assert (Status.FAILED, at("2025-02-23T04:09:31"), at("2025-02-23T04:20:05")) == (
        dag.status,
        dag.started_at,
        dag.ended_at,
    )
    assert (at("2025-02-23T04:00:00"), at("2025-02-23T05:00:00")) == (dag.expected_start_at, dag.expected_end_at)
    assert ("ada", "AUTOMATIC", "scheduled__2025-02-23T04:00:00+00:00") == (
        dag.started_by,
        dag.start_reason,
        dag.external_id,
    )
    run_name = "scheduled__2025-02-23T04%3A00%3A00%2B00%3A00"
    address = f"https://airflow.example:8080/dags/orders_daily/grid?dag_run_id={run_name}"
    assert address == dag.persistent_log_url
    assert (dag.id, "2", "no space left") == (task.parent_id, task.attempt, task.end_reason)
    assert str(task.persistent_log_url).endswith("&task_id=load_orders&map_index=3")
    (operation,) = facts.operations.values()
    assert ("load_orders", "SparkSubmitOperator", 3, "ingest", "BATCH") == (
        operation.name,
        operation.description,
        operation.position,
        operation.group,
        operation.type,
    )
    dependencies = {(each.source.name, each.target.name, each.type) for each in facts.dependencies}
    expected = {
        ("orders_daily.wait_for_files", "orders_daily.load_orders", "DIRECT_INVOCATION"),
        ("orders_daily.load_orders", "orders_daily.notify", "DIRECT_DEPENDENCY"),
    }
    assert expected == dependencies
    assert {"ada"} == facts.users
    assert ("orders_daily", "openlineage_client.version", "1.40.1") in tags(facts)
    assert ("orders_daily.load_orders", "airflow.version", "2.10.5") in tags(facts)


def test_a_spark_application_is_a_run_and_its_executions_are_operations() -> None:
    facts = facts_of(samples.SPARK)

    expected_jobs = {
        "load_orders": ("SPARK_APPLICATION", "orders_daily.load_orders"),
        "orders_daily.load_orders": (None, None),
        "orders_daily": (None, None),
    }
    assert expected_jobs == jobs(facts)
    assert {UUID(each) for each in (samples.APPLICATION, samples.TASK_RUN, samples.DAG_RUN)} == facts.runs.keys()
    run = facts.runs[UUID(samples.APPLICATION)]
    assert ("application_1740283771_0042", "etl", Status.SUCCEEDED) == (run.external_id, run.started_by, run.status)
    assert "http://yarn:8088/proxy/application_1740283771_0042" == run.running_log_url
    assert "http://history:18081/history/application_1740283771_0042" == run.persistent_log_url
    (operation,) = facts.operations.values()
    assert (run.id, "execute_insert_into_hadoop_fs_relation_command.sales_orders", 4, "nightly", "save orders") == (
        operation.run_id,
        operation.name,
        operation.position,
        operation.group,
        operation.description,
    )
    assert "INSERT OVERWRITE TABLE sales.orders SELECT * FROM raw" == operation.sql
    assert {
        ("load_orders", "spark.version", "3.5.4"),
        ("load_orders", "openlineage_adapter.version", "1.40.1"),
    } == tags(facts)
    assert {(UUID(samples.APPLICATION), "spark_properties")} == facts.run_facets.keys()


def test_a_path_goes_by_its_table_without_partitions_and_hosts_are_one_location() -> None:
    facts = facts_of(samples.SPARK)

    assert {"/warehouse/sales.db/orders", "sales.orders", "orders.raw"} == {key.name for key in facts.datasets}
    kafka = next(each for each in facts.locations.values() if each.key.type == "kafka")
    assert "broker-1:9092" == kafka.key.name
    assert {"kafka://broker-1:9092", "kafka://broker-2:9092"} == kafka.addresses
    assert ("hdfs", "namenode-1:8020") in facts.locations
    expected = {
        ("/warehouse/sales.db/orders", "sales.orders", "METASTORE"),
        ("sales.orders", "/warehouse/sales.db/orders", "WAREHOUSE"),
    }
    assert expected == {(each.source.name, each.target.name, each.type) for each in facts.symlinks}
    (output,) = facts.outputs.values()
    assert ("sales.orders", WriteKind.OVERWRITE, 990, 32000, 2) == (
        output.key.dataset.name,
        output.kinds,
        output.num_rows,
        output.num_bytes,
        output.num_files,
    )
    (read,) = facts.inputs.values()
    assert ("orders.raw", 1000, "load_orders") == (read.key.dataset.name, read.num_rows, read.job.name)
    assert output.schema is not None
    assert ["id", "customer", "amount"] == [each["name"] for each in json.loads(facts.schemas[output.schema])]
    seen = facts.dataset_schemas[output.key.dataset, output.schema]
    assert (at("2025-02-23T04:09:51"), at("2025-02-23T04:11:51")) == (seen.first_seen, seen.last_seen)


def test_column_lineage_is_direct_by_column_and_indirect_for_the_whole_target() -> None:
    facts = facts_of(samples.SPARK)

    (lineage,) = facts.column_lineage
    assert ("orders.raw", "sales.orders") == (lineage.source.name, lineage.target.name)
    expected = {
        ("key", None): ColumnUse.SORT,
        ("value", None): ColumnUse.FILTER,
        ("value", "customer"): ColumnUse.TRANSFORMATION_MASKING,
        ("value", "id"): ColumnUse.TRANSFORMATION,
    }
    found = facts.column_relations[lineage.fingerprint]
    assert expected == {(each.source_column, each.target_column): each.uses for each in found}


def test_a_dbt_invocation_is_a_run_and_its_models_are_operations() -> None:
    facts = facts_of(samples.DBT)

    assert {"dbt-run-shop": ("DBT_JOB", None)} == jobs(facts)
    (run,) = facts.runs.values()
    assert ("4f5b0f6c", Status.SUCCEEDED) == (run.external_id, run.status)
    (operation,) = facts.operations.values()
    assert (run.id, "model.shop.revenue", "MODEL", Status.SUCCEEDED) == (
        operation.run_id,
        operation.name,
        operation.group,
        operation.status,
    )
    assert {"sales.orders", "shop.sales.Revenue"} == {each.name for each in facts.datasets.values()}
    assert WriteKind.CREATE == next(iter(facts.outputs.values())).kinds
    assert {("shop.sales.revenue", "domain", "sales")} == {
        (each.dataset.name, each.name, each.value) for each in facts.dataset_tags
    }
    assert "tags" in {name for _, name in facts.dataset_facets}


def test_a_flink_job_that_runs_for_months_is_seen_in_each_hour_that_it_says_so() -> None:
    facts = facts_of(samples.FLINK)

    (operation,) = facts.operations.values()
    assert ("STREAMING", Status.STARTED, None) == (operation.type, operation.status, operation.ended_at)
    created = operation.created_at
    hours = sorted({(key.created_at - created) // datetime.timedelta(hours=1) for key in facts.inputs})
    assert [0, 2, 874] == hours
    assert all(key.created_at.minute == created.minute for key in facts.outputs)
    (run,) = facts.runs.values()
    assert ("b825f524", "http://flink:8081/#/job/running/b825f524") == (run.external_id, run.running_log_url)
    assert set() == facts.symlinks
    assert {"click_counts": ("FLINK_JOB", None)} == jobs(facts)


def test_a_hive_query_is_an_operation_of_its_session() -> None:
    facts = facts_of(samples.HIVE)

    (run,) = facts.runs.values()
    assert (at("2025-02-23T18:00:00"), Status.STARTED, "grace") == (run.created_at, run.status, run.started_by)
    assert 7 == run.id.version
    assert {"grace@10.0.0.7": ("HIVE_SESSION", None)} == jobs(facts)
    (operation,) = facts.operations.values()
    assert (UUID(samples.QUERY), run.id, "hive_20250223180936_1", "CREATETABLE_AS_SELECT") == (
        operation.id,
        operation.run_id,
        operation.name,
        operation.description,
    )
    assert WriteKind.CREATE == next(iter(facts.outputs.values())).kinds
    assert ("grace@10.0.0.7", "hive.version", "3.1.3") in tags(facts)


@pytest.mark.parametrize(
    ("job_facets", "run_facets", "expected"),
    [
        (samples.job_type("FLINK", "JOB", "STREAMING"), {}, WriteKind.APPEND),
        (samples.job_type("DBT", "MODEL"), {}, WriteKind.APPEND),
        (
            samples.job_type("DBT", "MODEL") | {"sql": samples.facet(query="CREATE TABLE t AS SELECT 1")},
            {},
            WriteKind.CREATE,
        ),
        (
            samples.job_type("HIVE", "QUERY"),
            {"hive_query": samples.facet(queryId="q", operationName="QUERY")},
            WriteKind.APPEND,
        ),
        (
            samples.job_type("HIVE", "QUERY"),
            {"hive_query": samples.facet(queryId="q", operationName="CREATEVIEW")},
            WriteKind.CREATE,
        ),
        (
            samples.job_type("HIVE", "QUERY"),
            {"hive_query": samples.facet(queryId="q", operationName="DROPTABLE")},
            WriteKind.DROP,
        ),
        (samples.job_type("CUSTOM", "JOB"), {}, 0),
    ],
)
def test_a_write_of_which_nobody_says_the_kind_appends_if_its_producer_usually_does(
    job_facets: dict[str, Any], run_facets: dict[str, Any], expected: int
) -> None:
    event = samples.event(
        "COMPLETE",
        "2026-03-01T00:00:00Z",
        samples.CUSTOM,
        ("local://here", "writes"),
        run_facets=run_facets,
        job_facets=job_facets,
        outputs=[{"namespace": "postgres://db:5432", "name": "a.b", "facets": {}}],
    )

    (output,) = facts_of([event]).outputs.values()

    assert expected == output.kinds


def test_a_producer_that_nobody_knows_is_a_run_and_an_operation_of_any_uuid() -> None:
    facts = facts_of(samples.PLAIN)

    (run,) = facts.runs.values()
    assert (UUID(samples.CUSTOM), at("2025-02-24T09:30:00"), Status.KILLED) == (run.id, run.created_at, run.status)
    assert ("77", "1", "MANUAL", "linus") == (run.external_id, run.attempt, run.start_reason, run.started_by)
    (operation,) = facts.operations.values()
    assert (run.id, "nightly copy") == (operation.run_id, operation.name)
    assert {at("2025-02-24T09:00:00")} == {key.created_at for key in facts.inputs}
    assert b'"sunny": true' in facts.run_facets[run.id, "ours_weather"].value
    assert {("nightly copy", "team", "data")} == tags(facts)
    bucket = next(each for each in facts.datasets.values() if each.key.location.type == "s3")
    assert "customers" == bucket.name
    assert {"ownership"} == {name for _, name in facts.dataset_facets}
    assert 1 == len(facts.dataset_schemas)


def test_what_a_database_could_not_hold_is_cut_or_kept_as_it_came() -> None:
    name = "x" * 5000
    big = {"outputStatistics": samples.facet(rowCount=2**63)}
    event = samples.event(
        "COMPLETE",
        "2025-02-24T10:00:00Z",
        samples.CUSTOM,
        ("postgres://ada:secret@db:5432", name),
        run_facets={"dataRentgen_run": samples.facet(started_by_user=name), name: {}},
        outputs=[{"namespace": "s3://b", "name": name, "outputFacets": big}],
    )

    facts = facts_of([event])

    texts = [*(key.name for key in facts.jobs), *(key.name for key in facts.datasets)]
    texts += [*facts.users, *(facet for _, facet in facts.run_facets)]
    assert 4 == len(texts)
    assert all(len(text) < 500 for text in texts)
    assert ("postgres", "db:5432") in facts.locations
    (output,) = facts.outputs.values()
    assert output.num_rows is None
    assert {"outputStatistics"} == {facet for _, facet in facts.dataset_facets}
