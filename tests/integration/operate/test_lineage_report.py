"""Pipelines report themselves: what arrives in the lineage topic, and what happens when it cannot."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import penstock
from penstock.cli import app
from penstock.driver import column_lineage
from penstock.kafka.reader import read_all
from penstock.lineage import pipeline_file
from penstock.lineage.store.address import StoreAddress, default_path

from support.pipelines import Lab


def project(lab: Lab, topic: str) -> Path:
    """Write a project file whose pipelines report to a topic."""
    file = lab.folder / "penstock.yaml"
    cluster = {"type": "external", "bootstrap_servers": lab.kafka.connection.bootstrap_servers}
    file.write_text(json.dumps({"cluster": cluster, "lineage": {"topic": topic}}), encoding="utf-8")
    return file


def reported(lab: Lab, topic: str) -> list[dict[str, Any]]:
    return [json.loads(record.value() or b"") for record in read_all(lab.connection, topic)]


def test_a_run_and_each_of_its_batches_are_reported_with_offsets_counts_and_columns(lab: Lab) -> None:
    topic = lab.kafka.topic("reporting", partitions=1)
    lineage = f"{topic}.lineage"
    lab.send_ids(topic, range(30))
    file = lab.written(
        topic,
        batch={"max_events": 20},
        steps=[{"sql": "SELECT *, id * 2 AS twice FROM events WHERE id >= 0"}],
    )

    penstock.run(file, home=lab.folder / "home", project=project(lab, lineage))

    start, first, second, end = reported(lab, lineage)
    assert ["START", "COMPLETE", "COMPLETE", "COMPLETE"] == [each["eventType"] for each in (start, first, second, end)]
    assert start["run"]["runId"] == end["run"]["runId"] == first["run"]["facets"]["parent"]["run"]["runId"]
    batch = second["run"]["facets"]["penstock_batch"]
    [offsets] = batch["offsets"]
    assert (topic, 0, 20, 30) == tuple(offsets[key] for key in ("topic", "partition", "start", "end"))
    [source], [output] = second["inputs"], second["outputs"]
    assert (topic, 10) == (source["name"], source["inputFacets"]["inputStatistics"]["rowCount"])
    assert ("file", str(lab.table)) == (output["namespace"], output["name"])
    assert 10 == output["outputFacets"]["outputStatistics"]["rowCount"]
    assert {"name": "twice", "type": "bigint"} in output["facets"]["schema"]["fields"]
    [made_of] = output["facets"]["columnLineage"]["fields"]["twice"]["inputFields"]
    assert ("id", [{"type": "DIRECT", "subtype": "TRANSFORMATION"}]) == (made_of["field"], made_of["transformations"])
    [shaped_by] = output["facets"]["columnLineage"]["dataset"]
    assert ("id", [{"type": "INDIRECT", "subtype": "FILTER"}]) == (shaped_by["field"], shaped_by["transformations"])


def test_a_row_leads_back_to_the_record_and_the_batch_that_made_it(lab: Lab) -> None:
    topic = lab.kafka.topic("traced", partitions=1)
    lineage = f"{topic}.lineage"
    lab.send_ids(topic, range(30))
    file, reports = lab.written(topic, batch={"max_events": 20}), project(lab, lineage)
    home = lab.folder / "home"
    penstock.run(file, home=home, project=reports)
    address = StoreAddress(store=str(default_path(home)))
    taken_in = pipeline_file.write(home, address, topics=[lineage], pattern=None, batch={})
    document = yaml.safe_load(taken_in.read_text(encoding="utf-8"))
    taken_in.write_text(yaml.safe_dump({**document, "speed": "scheduled"}), encoding="utf-8")
    account = penstock.run(taken_in, home=home, project=reports)
    again = penstock.run(taken_in, home=home, project=reports)

    # Nobody reports the taking in of reports: it would never end.
    assert (4, 0) == (account.events, again.events)
    options = ["--home", str(home), "lineage"]
    said = CliRunner().invoke(app, [*options, "of", lab.table.name, "--row", "id = 25", "--json"])
    assert 0 == said.exit_code, said.output
    [origin] = json.loads(said.stdout)
    assert {"topic": topic, "partition": 0, "offset": 25, "batch": 2} == {
        name: origin[name] for name in ("topic", "partition", "offset", "batch")
    }
    tree = CliRunner().invoke(app, [*options, "of", lab.table.name])
    assert topic in tree.output
    assert "PENSTOCK_PIPELINE" in tree.output


def test_a_report_that_cannot_be_sent_costs_a_warning_and_nothing_else(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = lab.kafka.topic("unreported")
    lab.send_ids(topic, range(5))
    no_topic_name = project(lab, "no topic name")

    account = penstock.run(lab.written(topic), home=lab.folder / "home", project=no_topic_name)

    assert (5, "finished") == (account.events, account.state)
    assert list(range(5)) == lab.ids()
    assert f"3 lineage events of pipeline '{topic}' were not sent" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("query", "direct", "indirect"),
    [
        (
            "SELECT customer, sum(amount) AS total FROM events WHERE id > 3 GROUP BY customer",
            {"customer": {"customer": {"IDENTITY"}}, "total": {"amount": {"AGGREGATION"}}},
            {"customer": {"GROUP_BY"}, "id": {"FILTER"}},
        ),
        (
            "SELECT double + 1 AS more, 5 AS five FROM (SELECT amount * 2 AS double FROM events) ORDER BY double",
            {"more": {"amount": {"TRANSFORMATION"}}, "five": {}},
            {"amount": {"SORT"}},
        ),
        (
            "SELECT a.id, b.amount FROM events a JOIN events b ON a.customer = b.customer",
            {"id": {"id": {"IDENTITY"}}, "amount": {"amount": {"IDENTITY"}}},
            {"customer": {"JOIN"}},
        ),
        (
            "SELECT id, row_number() OVER (PARTITION BY customer ORDER BY amount) AS place FROM events",
            {"id": {"id": {"IDENTITY"}}, "place": {"customer": {"TRANSFORMATION"}, "amount": {"TRANSFORMATION"}}},
            {"customer": {"WINDOW"}, "amount": {"WINDOW"}},
        ),
    ],
    ids=["aggregate", "subquery", "join", "window"],
)
def test_the_columns_of_a_query_are_traced_back_to_the_table(
    spark: Any, query: str, direct: dict[str, Any], indirect: dict[str, Any]
) -> None:
    spark.createDataFrame([], "id int, customer string, amount double").createOrReplaceTempView("events")

    found = column_lineage.read(spark.sql(query))

    assert (direct, indirect) == (found.direct, found.indirect)
