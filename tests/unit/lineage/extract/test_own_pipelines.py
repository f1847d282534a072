"""What pipelines report of themselves, read as any other lineage event."""

import datetime
from uuid import UUID

import msgspec

from penstock.driver.batch import BatchReport, SinkCount
from penstock.driver.column_lineage import ColumnLineage, MadeColumns
from penstock.lineage import events
from penstock.lineage.collected import Facts
from penstock.lineage.extract import Extractor
from penstock.lineage.facts import Status
from penstock.operate.lineage_events import Dataset, PipelineEvents, Written
from penstock.pipeline.spec import PipelineSpec
from penstock.record.positions import SourcePartition
from penstock.record.target import Target

BEGAN = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
DONE = BEGAN + datetime.timedelta(seconds=2)
SPEC = PipelineSpec.model_validate(
    {
        "name": "orders",
        "source": {"type": "kafka", "topics": ["orders"]},
        "decode": {"type": "raw"},
        "sinks": [{"type": "delta", "path": "/tables/orders"}],
    }
)


def read(*reported: events.Event | dict[str, object]) -> Facts:
    extractor = Extractor()
    for each in reported:
        extractor.add(events.parse(msgspec.json.encode(each)))
    return extractor.facts


def report(batch: int = 7) -> BatchReport:
    partition = SourcePartition("orders", "an-id", 0)
    counts = {"delta": SinkCount(100, 98, 2, 0)}
    return BatchReport(batch, 100, 2, counts, {}, {partition: 300}, 2.0, {partition: 200})


def made() -> MadeColumns:
    direct = {"gross": {"amount": frozenset({"TRANSFORMATION"})}}
    return MadeColumns({"gross": "double"}, ColumnLineage(direct, {"id": frozenset({"FILTER"})}))


def test_a_batch_is_an_operation_of_the_driver_s_run_from_topic_to_table() -> None:
    run = PipelineEvents(SPEC, "penstock", BEGAN)
    source, target = Dataset("kafka://broker:9092", "orders"), Dataset("file", "/tables/orders")
    batch = run.batch(report(), DONE, [source], [Written("delta", target)], made())

    facts = read(run.run("START", BEGAN), batch, run.run("COMPLETE", DONE))

    [operation] = facts.operations.values()
    assert (run.run_id, 7, BEGAN, DONE) == (
        operation.run_id,
        operation.position,
        operation.started_at,
        operation.ended_at,
    )
    [driver] = facts.runs.values()
    assert (run.run_id, Status.SUCCEEDED, BEGAN, DONE) == (driver.id, driver.status, driver.started_at, driver.ended_at)
    assert [("orders", "PENSTOCK_PIPELINE")] == [(job.name, job.type) for job in facts.jobs.values()]
    assert [("orders", 100)] == [(each.key.dataset.name, each.num_rows) for each in facts.inputs.values()]
    assert [("/tables/orders", 98)] == [(each.key.dataset.name, each.num_rows) for each in facts.outputs.values()]
    [relations] = facts.column_relations.values()
    assert {("amount", "gross"), ("id", None)} == {(each.source_column, each.target_column) for each in relations}


def test_the_offsets_of_a_batch_are_kept_as_they_came() -> None:
    run = PipelineEvents(SPEC, "penstock", BEGAN)

    facts = read(run.batch(report(), DONE, [], [], None))

    [(_, name)] = facts.run_facets
    [facet] = facts.run_facets.values()
    said = msgspec.json.decode(facet.value)
    assert ("penstock_batch", 7) == (name, said["batch"])
    assert [{"topic": "orders", "topicId": "an-id", "partition": 0, "start": 200, "end": 300}] == said["offsets"]


def test_a_failed_run_says_why() -> None:
    run = PipelineEvents(SPEC, "penstock", BEGAN)

    [failed] = read(run.run("FAIL", DONE, "the disk is full")).runs.values()

    assert (Status.FAILED, "the disk is full") == (failed.status, failed.end_reason)


def test_what_sinks_write_to_has_the_names_that_openlineage_asks_for() -> None:
    targets = [Target("topic", "orders"), Target("folder", "/a/b"), Target("table", "db:5432/shop/public.orders")]

    assert [
        Dataset("kafka://one:9092,two:9092", "orders"),
        Dataset("file", "/a/b"),
        Dataset("postgres://db:5432", "shop.public.orders"),
    ] == [Dataset.of(each, "one:9092,two:9092") for each in targets]


def test_ids_of_runs_are_uuids_of_version_7_with_the_time_in_front() -> None:
    made_id: UUID = PipelineEvents(SPEC, "penstock", BEGAN).run_id

    assert (7, "specified in RFC 4122") == (made_id.version, made_id.variant)
    assert int(BEGAN.timestamp() * 1000) == made_id.int >> 80
