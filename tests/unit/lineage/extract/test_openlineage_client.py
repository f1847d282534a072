"""Events that OpenLineage's own client makes, as it writes them."""

import json
from uuid import UUID

from openlineage.client import event_v2 as client
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    error_message_run,
    input_statistics_input_dataset,
    job_dependencies_run,
    job_type_job,
    lifecycle_state_change_dataset,
    nominal_time_run,
    output_statistics_output_dataset,
    parent_run,
    processing_engine_run,
    schema_dataset,
    sql_job,
    symlinks_dataset,
    tags_dataset,
    tags_job,
    tags_run,
)
from openlineage.client.serde import Serde
from openlineage.client.uuid import generate_new_uuid

from penstock.lineage.collected import Facts
from penstock.lineage.events import parse
from penstock.lineage.extract import Extractor
from penstock.lineage.facts import ColumnUse, Status, WriteKind

TIME = "2026-03-01T10:00:00.000000+00:00"
PLACE = "postgres://db:5432"


def facts_of(event: client.BaseEvent) -> Facts:
    extractor = Extractor()
    extractor.add(parse(Serde.to_json(event).encode()))
    return extractor.facts


def run_event(run_id: str, parent_id: str) -> client.RunEvent:
    how = column_lineage_dataset.Transformation(type="DIRECT", subtype="AGGREGATION", masking=True)
    field = column_lineage_dataset.InputField(PLACE, "orders", "amount", transformations=[how])
    columns = column_lineage_dataset.Fields(inputFields=[field])
    dependency = job_dependencies_run.JobDependency(job_dependencies_run.JobIdentifier("cron", "before"))
    return client.RunEvent(
        eventTime=TIME,
        eventType=client.RunState.FAIL,
        producer="https://example.com",
        run=client.Run(
            run_id,
            facets={
                "parent": parent_run.ParentRunFacet(parent_run.Run(parent_id), parent_run.Job("cron", "nightly")),
                "nominalTime": nominal_time_run.NominalTimeRunFacet(TIME),
                "errorMessage": error_message_run.ErrorMessageRunFacet("out of memory", "PYTHON"),
                "processing_engine": processing_engine_run.ProcessingEngineRunFacet("1.2", "Ours", "1.40.1"),
                "tags": tags_run.TagsRunFacet([tags_run.TagsRunFacetFields("region", "eu", "USER")]),
                "jobDependencies": job_dependencies_run.JobDependenciesRunFacet(upstream=[dependency]),
            },
        ),
        job=client.Job(
            "cron",
            "sum_orders",
            facets={
                "jobType": job_type_job.JobTypeJobFacet("BATCH", "OURS", "TASK"),
                "sql": sql_job.SQLJobFacet("MERGE INTO totals USING orders ON true"),
                "tags": tags_job.TagsJobFacet([tags_job.TagsJobFacetFields("team", "data", "USER")]),
            },
        ),
        inputs=[
            client.InputDataset(
                PLACE,
                "orders",
                inputFacets={"inputStatistics": input_statistics_input_dataset.InputStatisticsInputDatasetFacet(7, 70)},
                facets={"tags": tags_dataset.TagsDatasetFacet([tags_dataset.TagsDatasetFacetFields("pii", "no", "U")])},
            )
        ],
        outputs=[
            client.OutputDataset(
                PLACE,
                "totals",
                facets={
                    "schema": schema_dataset.SchemaDatasetFacet(
                        [schema_dataset.SchemaDatasetFacetFields("total", "numeric", "a sum")]
                    ),
                    "columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet({"total": columns}),
                    "symlinks": symlinks_dataset.SymlinksDatasetFacet(
                        [symlinks_dataset.Identifier("hive://metastore", "sales.totals", "TABLE")]
                    ),
                },
                outputFacets={
                    "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(3, 30, 1)
                },
            )
        ],
    )


def test_a_run_event_of_the_python_client_is_understood_whole() -> None:
    run_id, parent_id = generate_new_uuid(), generate_new_uuid()

    facts = facts_of(run_event(str(run_id), str(parent_id)))

    run = facts.runs[UUID(str(run_id))]
    assert (Status.FAILED, "out of memory", UUID(str(parent_id))) == (run.status, run.end_reason, run.parent_id)
    assert {"sum_orders": "OURS_TASK", "nightly": None, "before": None} == {
        job.name: job.type for job in facts.jobs.values()
    }
    assert {("ours.version", "1.2"), ("openlineage_adapter.version", "1.40.1"), ("region", "eu"), ("team", "data")} == {
        (tag.name, tag.value) for tag in facts.job_tags
    }
    assert {("before", "sum_orders")} == {(each.source.name, each.target.name) for each in facts.dependencies}
    (read,), (written,) = facts.inputs.values(), facts.outputs.values()
    assert (7, 70) == (read.num_rows, read.num_bytes)
    assert (3, 30, 1, WriteKind.MERGE) == (written.num_rows, written.num_bytes, written.num_files, written.kinds)
    assert written.schema is not None
    assert [{"name": "total", "type": "numeric", "description": "a sum"}] == json.loads(facts.schemas[written.schema])
    ((relation,),) = facts.column_relations.values()
    assert ("amount", "total", ColumnUse.AGGREGATION_MASKING) == relation
    assert 2 == len(facts.symlinks)
    assert {("orders", "pii", "no")} == {(tag.dataset.name, tag.name, tag.value) for tag in facts.dataset_tags}
    assert [0, 0, 0] == [len(each) for each in (facts.run_facets, facts.job_facets, facts.dataset_facets)]


def test_a_dataset_event_of_the_python_client_is_understood() -> None:
    change = lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet(
        lifecycle_state_change_dataset.LifecycleStateChange.ALTER
    )
    event = client.DatasetEvent(
        eventTime=TIME,
        producer="https://example.com",
        dataset=client.StaticDataset(PLACE, "Totals", facets={"lifecycleStateChange": change}),
    )

    facts = facts_of(event)

    assert ["Totals"] == [each.name for each in facts.datasets.values()]
    assert {} == facts.runs


def test_a_job_event_of_the_python_client_is_understood() -> None:
    event = client.JobEvent(
        eventTime=TIME,
        producer="https://example.com",
        job=client.Job("cron", "sum_orders", facets={"jobType": job_type_job.JobTypeJobFacet("BATCH", "OURS")}),
        inputs=[client.InputDataset(PLACE, "orders")],
        outputs=[client.OutputDataset(PLACE, "totals")],
    )

    facts = facts_of(event)

    assert ["OURS"] == [each.type for each in facts.jobs.values()]
    assert {"orders", "totals"} == {each.name for each in facts.datasets.values()}
    assert {} == facts.runs
