"""Events as their producers send them, written by hand from OpenLineage's descriptions of its facets.

Each list is one small story, in the order in which it happens.
"""

from typing import Any

Event = dict[str, Any]

_SPEC = "https://openlineage.io/spec"

DAG_RUN = "01953100-0000-7000-8000-000000000001"
TASK_RUN = "01953100-1388-7000-8000-000000000002"
APPLICATION = "01953100-2710-7000-8000-000000000003"
EXECUTION = "01953100-4e20-7000-8000-000000000004"
INVOCATION = "01953200-0000-7000-8000-000000000005"
MODEL = "01953200-1388-7000-8000-000000000006"
STREAM = "01953300-0000-7000-8000-000000000007"
QUERY = "01953400-0000-7000-8000-000000000008"
CUSTOM = "9b2f6f1e-8a55-4f6d-9c39-5a1c1d0f7e01"

AIRFLOW_JOBS = "https://airflow.example:8080"
DAG = "orders_daily"
TASK = f"{DAG}.load_orders"
SPARK_JOBS = "yarn://analytics"
SPARK_JOB = "load_orders"


def facet(**fields: Any) -> dict[str, Any]:
    return {"_producer": "https://example.com/producer", "_schemaURL": f"{_SPEC}/facets/1-0-0/Facet.json", **fields}


def event(
    event_type: str,
    time: str,
    run_id: str,
    job: tuple[str, str],
    *,
    run_facets: dict[str, Any] | None = None,
    job_facets: dict[str, Any] | None = None,
    inputs: list[dict[str, Any]] | None = None,
    outputs: list[dict[str, Any]] | None = None,
) -> Event:
    """Make a RunEvent."""
    return {
        "eventTime": time,
        "producer": "https://example.com/producer",
        "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "eventType": event_type,
        "run": {"runId": run_id, "facets": run_facets or {}},
        "job": {"namespace": job[0], "name": job[1], "facets": job_facets or {}},
        "inputs": inputs or [],
        "outputs": outputs or [],
    }


def job_type(integration: str, kind: str, processing: str = "BATCH") -> dict[str, Any]:
    return {"jobType": facet(processingType=processing, integration=integration, jobType=kind)}


def parent(run_id: str, namespace: str, name: str, root: tuple[str, str, str] | None = None) -> dict[str, Any]:
    said = facet(run={"runId": run_id}, job={"namespace": namespace, "name": name})
    if root is not None:
        said["root"] = {"run": {"runId": root[0]}, "job": {"namespace": root[1], "name": root[2]}}
    return {"parent": said}


def engine(name: str, version: str) -> dict[str, Any]:
    return {"processing_engine": facet(name=name, version=version, openlineageAdapterVersion="1.40.1")}


def columns(*names: str) -> dict[str, Any]:
    return {"schema": facet(fields=[{"name": name, "type": "string"} for name in names])}


_DAG_FACETS = {
    "airflowDagRun": facet(
        dag={"dag_id": DAG, "owner": "ada", "tags": "[]"},
        dagRun={
            "run_id": "scheduled__2025-02-23T04:00:00+00:00",
            "run_type": "scheduled",
            "data_interval_start": "2025-02-23T04:00:00+00:00",
        },
    ),
    "nominalTime": facet(nominalStartTime="2025-02-23T04:00:00Z", nominalEndTime="2025-02-23T05:00:00Z"),
    "tags": facet(tags=[{"key": "openlineage_client_version", "value": "1.40.1", "source": "OPENLINEAGE_CLIENT"}]),
    **engine("Airflow", "2.10.5"),
}
_TASK_FACETS = {
    "airflow": facet(
        dag={"dag_id": DAG, "owner": "ada"},
        dagRun={"run_id": "scheduled__2025-02-23T04:00:00+00:00", "run_type": "scheduled"},
        task={
            "task_id": "load_orders",
            "operator_class": "SparkSubmitOperator",
            "task_group": {"group_id": "ingest"},
        },
        taskInstance={"try_number": 2, "map_index": 3},
        taskUuid=TASK_RUN,
    ),
    "jobDependencies": facet(
        upstream=[
            {
                "job": {"namespace": AIRFLOW_JOBS, "name": f"{DAG}.wait_for_files"},
                "dependency_type": "DIRECT_INVOCATION",
            }
        ],
        downstream=[{"job": {"namespace": AIRFLOW_JOBS, "name": f"{DAG}.notify"}}],
    ),
    **parent(DAG_RUN, AIRFLOW_JOBS, DAG),
    **engine("Airflow", "2.10.5"),
}
AIRFLOW: list[Event] = [
    event("START", "2025-02-23T04:09:31.000Z", DAG_RUN, (AIRFLOW_JOBS, DAG), run_facets=_DAG_FACETS,
          job_facets=job_type("AIRFLOW", "DAG")),
    event("START", "2025-02-23T04:09:36.000Z", TASK_RUN, (AIRFLOW_JOBS, TASK), run_facets=_TASK_FACETS,
          job_facets=job_type("AIRFLOW", "TASK")),
    event("FAIL", "2025-02-23T04:20:00.000Z", TASK_RUN, (AIRFLOW_JOBS, TASK),
          run_facets={**parent(DAG_RUN, AIRFLOW_JOBS, DAG), "errorMessage": facet(
              message="no space left", programmingLanguage="PYTHON")},
          job_facets=job_type("AIRFLOW", "TASK"),
          inputs=[{"namespace": "file", "name": "/landing/orders.csv"}]),
    event("FAIL", "2025-02-23T04:20:05.000Z", DAG_RUN, (AIRFLOW_JOBS, DAG),
          job_facets=job_type("AIRFLOW", "DAG")),
]  # fmt: skip

_APPLICATION_FACETS = {
    "spark_applicationDetails": facet(
        master="yarn",
        appName=SPARK_JOB,
        applicationId="application_1740283771_0042",
        deployMode="cluster",
        driverHost="worker-7",
        userName="etl",
        uiWebUrl="http://worker-7:4040",
        proxyUrl="http://yarn:8088/proxy/application_1740283771_0042,http://other:8088",
        historyUrl="http://history:18081/history/application_1740283771_0042",
    ),
    "spark_properties": facet(properties={"spark.master": "yarn"}),
    **engine("spark", "3.5.4"),
}
_EXECUTION_FACETS = {
    **parent(APPLICATION, SPARK_JOBS, SPARK_JOB, (DAG_RUN, AIRFLOW_JOBS, DAG)),
    "spark_jobDetails": facet(jobId=4, jobDescription="save orders", jobGroup="nightly", jobCallSite="save at Main"),
    **_APPLICATION_FACETS,
}
_ORDERS = {
    "namespace": "hdfs://NameNode-1:8020",
    "name": "/warehouse/sales.db/orders/day=2025-02-23/hour=4",
    "facets": {
        **columns("id", "customer", "amount"),
        "symlinks": facet(
            identifiers=[{"namespace": "hive://metastore:9083", "name": "sales.orders", "type": "TABLE"}]
        ),
        "storage": facet(storageLayer="hdfs", fileFormat="parquet"),
    },
}
_RAW_ORDERS = {
    "namespace": "kafka://broker-2:9092,broker-1:9092",
    "name": "orders.raw",
    "facets": columns("value"),
}
_ORDER_COLUMNS = facet(
    fields={
        "id": {
            "inputFields": [
                {
                    "namespace": "kafka://broker-2:9092,broker-1:9092",
                    "name": "orders.raw",
                    "field": "value",
                    "transformations": [
                        {"type": "DIRECT", "subtype": "TRANSFORMATION", "description": "", "masking": False},
                        {"type": "INDIRECT", "subtype": "FILTER", "description": "", "masking": False},
                    ],
                }
            ]
        },
        "customer": {
            "inputFields": [
                {
                    "namespace": "kafka://broker-2:9092,broker-1:9092",
                    "name": "orders.raw",
                    "field": "value",
                    "transformations": [
                        {"type": "DIRECT", "subtype": "TRANSFORMATION", "description": "", "masking": True}
                    ],
                }
            ]
        },
    },
    dataset=[
        {
            "namespace": "kafka://broker-2:9092,broker-1:9092",
            "name": "orders.raw",
            "field": "key",
            "transformations": [{"type": "INDIRECT", "subtype": "SORT", "description": "", "masking": False}],
        }
    ],
)
SPARK: list[Event] = [
    event("START", "2025-02-23T04:09:41.000Z", APPLICATION, (SPARK_JOBS, SPARK_JOB),
          run_facets={**parent(TASK_RUN, AIRFLOW_JOBS, TASK, (DAG_RUN, AIRFLOW_JOBS, DAG)), **_APPLICATION_FACETS},
          job_facets=job_type("SPARK", "APPLICATION", "NONE")),
    event("START", "2025-02-23T04:09:51.000Z", EXECUTION,
          (SPARK_JOBS, f"{SPARK_JOB}.execute_insert_into_hadoop_fs_relation_command"),
          run_facets=_EXECUTION_FACETS, job_facets=job_type("SPARK", "SQL_JOB"),
          inputs=[_RAW_ORDERS], outputs=[_ORDERS]),
    event("COMPLETE", "2025-02-23T04:11:51.000Z", EXECUTION,
          (SPARK_JOBS, f"{SPARK_JOB}.execute_insert_into_hadoop_fs_relation_command.sales_orders"),
          run_facets=_EXECUTION_FACETS,
          job_facets={**job_type("SPARK", "SQL_JOB"), "sql": facet(
              query="  INSERT OVERWRITE TABLE sales.orders SELECT * FROM raw ")},
          inputs=[_RAW_ORDERS | {"inputFacets": {"inputStatistics": facet(rowCount=1000, size=64000, fileCount=0)}}],
          outputs=[_ORDERS | {
              "facets": {**_ORDERS["facets"], "columnLineage": _ORDER_COLUMNS},  # type: ignore[dict-item]
              "outputFacets": {"outputStatistics": facet(rowCount=990, size=32000, fileCount=2)}}]),
    event("COMPLETE", "2025-02-23T04:12:00.000Z", APPLICATION, (SPARK_JOBS, SPARK_JOB),
          run_facets=_APPLICATION_FACETS, job_facets=job_type("SPARK", "APPLICATION", "NONE")),
]  # fmt: skip

_WAREHOUSE = "postgres://warehouse:5432"
DBT: list[Event] = [
    event("START", "2025-02-23T08:49:36.000Z", INVOCATION, ("dbt://shop", "dbt-run-shop"),
          run_facets={"dbt_run": facet(invocation_id="4f5b0f6c", project_name="shop"), **engine("dbt", "1.9.4")},
          job_facets=job_type("DBT", "JOB")),
    event("COMPLETE", "2025-02-23T08:50:36.000Z", MODEL, ("dbt://shop", "model.shop.revenue"),
          run_facets={**parent(INVOCATION, "dbt://shop", "dbt-run-shop"), **engine("dbt", "1.9.4")},
          job_facets={**job_type("DBT", "MODEL"), "sql": facet(query="create table revenue as select 1", dialect="x")},
          inputs=[{"namespace": _WAREHOUSE, "name": "None.sales.orders"}],
          outputs=[{"namespace": _WAREHOUSE, "name": "shop.sales.Revenue", "facets": {
              **columns("day", "revenue"), "tags": facet(tags=[
                  {"key": "domain", "value": "sales", "source": "DBT"},
                  {"key": "pii", "value": "false", "source": "DBT", "field": "revenue"}])}}]),
    event("COMPLETE", "2025-02-23T08:51:00.000Z", INVOCATION, ("dbt://shop", "dbt-run-shop"),
          job_facets=job_type("DBT", "JOB")),
]  # fmt: skip

_CLICKS = {
    "namespace": "kafka://broker-1:9092",
    "name": "clicks",
    "facets": {
        "symlinks": facet(identifiers=[{"namespace": "kafka://broker-1:9092", "name": "db.clicks", "type": "TABLE"}])
    },
}
FLINK: list[Event] = [
    event(kind, time, STREAM, ("http://flink:8081", "click_counts"),
          run_facets={"flink_job": facet(jobId="b825f524"), **engine("flink", "2.0.0")},
          job_facets=job_type("FLINK", "JOB", "STREAMING"),
          inputs=[_CLICKS], outputs=[{"namespace": "kafka://broker-1:9092", "name": "clicks_per_hour"}])
    for kind, time in (
        ("START", "2025-02-23T13:29:36.000Z"),
        ("RUNNING", "2025-02-23T13:40:00.000Z"),
        ("RUNNING", "2025-02-23T15:40:00.000Z"),
        ("RUNNING", "2025-04-01T00:00:00.000Z"),
    )
]  # fmt: skip

HIVE: list[Event] = [
    event("COMPLETE", "2025-02-23T18:10:00.000Z", QUERY, ("hive://hiveserver:10000", "createtable_as_select.sales.top"),
          run_facets={
              "hive_session": facet(sessionId="0ba6765b-3019-4172-b748-63c257158d20", username="grace",
                                    clientIp="10.0.0.7", creationTime="2025-02-23T18:00:00Z"),
              "hive_query": facet(queryId="hive_20250223180936_1", operationName="CREATETABLE_AS_SELECT"),
              **engine("hive", "3.1.3")},
          job_facets={"sql": facet(query="CREATE TABLE sales.top AS SELECT * FROM sales.orders")},
          inputs=[{"namespace": "hive://metastore:9083", "name": "sales.orders"}],
          outputs=[{"namespace": "hive://metastore:9083", "name": "sales.top",
                    "facets": {"lifecycleStateChange": facet(lifecycleStateChange="CREATE")}}]),
]  # fmt: skip

PLAIN: list[Event] = [
    event("START", "2025-02-24T10:30:00+01:00", CUSTOM, ("local", "nightly copy"),
          run_facets={
              "dataRentgen_run": facet(external_id="77", attempt="1", start_reason="MANUAL", started_by_user="linus"),
              "ours_weather": facet(sunny=True)}),
    event("ABORT", "2025-02-24T10:45:00+01:00", CUSTOM, ("local", "nightly copy"),
          inputs=[{"namespace": "mysql://db:3306", "name": "shop.customers"}],
          outputs=[{"namespace": "s3://bucket", "name": "customers"}]),
    {"eventTime": "2025-02-24T11:00:00Z", "producer": "https://example.com", "schemaURL":
     f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/DatasetEvent", "dataset": {
         "namespace": "s3://bucket", "name": "Customers", "facets": {
             **columns("id"), "ownership": facet(owners=[{"name": "team:data"}])}}},
    {"eventTime": "2025-02-24T11:00:00Z", "producer": "https://example.com", "schemaURL":
     f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/JobEvent", "job": {
         "namespace": "local", "name": "nightly copy", "facets": {
             "tags": facet(tags=[{"key": "team", "value": "data"}])}},
     "inputs": [], "outputs": [{"namespace": "s3://bucket", "name": "customers"}]},
]  # fmt: skip

ALL: dict[str, list[Event]] = {
    "airflow": AIRFLOW,
    "spark": SPARK,
    "dbt": DBT,
    "flink": FLINK,
    "hive": HIVE,
    "plain": PLAIN,
}
