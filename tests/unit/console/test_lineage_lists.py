"""The lists of lineage in a console, by its REST interface: they lead from one to the other, a page at a time."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.lineage.store.address import StoreAddress, default_path
from penstock.lineage.store.database import migrate

from support.consoles import Asked, open_console
from support.lineage_samples import (
    AIRFLOW,
    APPLICATION,
    DAG,
    DAG_RUN,
    EXECUTION,
    HIVE,
    SPARK,
    SPARK_JOB,
    TASK,
    TASK_RUN,
    event,
    facet,
)
from support.lineage_stories import write_in_batches

UNREACHABLE = "127.0.0.1:1"
SINCE = "2025-01-01T00:00Z"
NOBODY = "01953100-0000-7000-8000-00000000ffff"


@pytest.fixture
def ask(tmp_path: Path) -> Asked:
    home = tmp_path / "home"
    path = default_path(home)
    path.parent.mkdir(parents=True)
    address = StoreAddress(store=str(path))
    migrate(address)
    write_in_batches(address, [json.dumps(each).encode() for each in (*AIRFLOW, *SPARK, *HIVE)], 100)
    return open_console(home, UNREACHABLE)


def listed(ask: Asked, kind: str, **asked: Any) -> list[dict[str, Any]]:
    found = ask("GET", f"/lineage/{kind}", **asked).json()
    assert len(found["items"]) == found["total"]
    return list(found["items"])


def test_a_location_leads_to_its_datasets_and_jobs(ask: Asked) -> None:
    (kafka,) = listed(ask, "locations", search="BROKER-1")
    (dataset,) = listed(ask, "datasets", location=kafka["id"])

    assert ["kafka://broker-1:9092", "kafka://broker-2:9092"] == [each["url"] for each in kafka["data"]["addresses"]]
    assert (1, 0) == tuple(kafka["statistics"][kind][f"total_{kind}"] for kind in ("datasets", "jobs"))
    assert ("orders.raw", ["value"]) == (
        dataset["data"]["name"],
        [each["name"] for each in dataset["data"]["schema"]["fields"]],
    )
    assert [] == listed(ask, "jobs", location=kafka["id"])


def test_a_job_has_its_last_run_and_its_relatives(ask: Asked) -> None:
    jobs = {each["data"]["name"]: each for each in listed(ask, "jobs")}
    task = ask("GET", f"/lineage/jobs/{jobs[TASK]['id']}").json()
    children = listed(ask, "jobs", parent=jobs[DAG]["id"])

    assert (DAG, "FAILED", TASK_RUN) == (
        jobs[TASK]["parent"],
        jobs[TASK]["last_run"]["status"],
        jobs[TASK]["last_run"]["id"],
    )
    assert [DAG] == [each["name"] for each in task["parents"]]
    assert [[f"{DAG}.wait_for_files"], [f"{DAG}.notify"]] == [
        [each["name"] for each in task[relation]] for relation in ("waits_for", "is_waited_for_by")
    ]
    assert TASK in [each["data"]["name"] for each in children]


def test_runs_are_listed_the_latest_first_by_job_parent_and_state(ask: Asked) -> None:
    runs = listed(ask, "runs", since=SINCE)
    of_task = next(each for each in runs if each["id"] == TASK_RUN)
    failed = {each["id"] for each in listed(ask, "runs", since=SINCE, state="FAILED")}

    assert sorted((each["data"]["created_at"] for each in runs), reverse=True) == [
        each["data"]["created_at"] for each in runs
    ]
    assert (TASK, DAG) == (of_task["job"]["name"], of_task["parent"])
    assert {DAG_RUN, TASK_RUN} == failed
    assert TASK_RUN in {each["id"] for each in listed(ask, "runs", since=SINCE, parent=DAG_RUN)}
    assert {TASK_RUN} == {each["id"] for each in listed(ask, "runs", since=SINCE, job=of_task["data"]["job_id"])}
    assert [] == listed(ask, "runs")


def test_a_run_leads_to_its_operations_and_these_to_what_they_read_and_wrote(ask: Asked) -> None:
    (operation,) = listed(ask, "operations", run=APPLICATION)
    whole = ask("GET", f"/lineage/operations/{EXECUTION}").json()
    run = ask("GET", f"/lineage/runs/{APPLICATION}").json()

    assert (EXECUTION, SPARK_JOB) == (operation["id"], whole["run"]["job"]["name"])
    assert ["orders.raw"] == [each["name"] for each in whole["inputs"]]
    assert [(each["name"], each["rows"], each["bytes"]) for each in whole["outputs"]] == [
        (each["name"], each["rows"], each["bytes"]) for each in run["outputs"]
    ]
    assert whole["outputs"][0]["rows"] == operation["statistics"]["outputs"]["total_rows"] > 0


def test_an_operation_tells_its_sql(ask: Asked) -> None:
    queries = [
        each["data"]["sql_query"]
        for run in listed(ask, "runs", since=SINCE)
        for each in listed(ask, "operations", run=run["id"])
    ]

    assert any("SELECT" in (each or "").upper() for each in queries)


def test_lists_have_the_begin_of_long_texts_and_a_run_has_all_of_its_own(tmp_path: Path) -> None:
    path = default_path(tmp_path)
    path.parent.mkdir(parents=True)
    address = StoreAddress(store=str(path))
    migrate(address)
    said = {"errorMessage": facet(message="x" * 500_000, programmingLanguage="JAVA")}
    failed = event("FAIL", "2025-02-13T12:00:00Z", NOBODY, ("etl", "fails"), run_facets=said)
    write_in_batches(address, [json.dumps(failed).encode()], 1)
    ask = open_console(tmp_path, UNREACHABLE)
    (run,) = listed(ask, "runs", since=SINCE)
    (job,) = listed(ask, "jobs")
    whole = ask("GET", f"/lineage/runs/{NOBODY}").json()

    assert [f"{'x' * 1_000}…"] * 2 == [run["data"]["end_reason"], job["last_run"]["end_reason"]]
    assert "x" * 500_000 == whole["run"]["data"]["end_reason"]


def test_a_page_has_as_many_as_were_asked_for(ask: Asked) -> None:
    pages = [ask("GET", "/lineage/jobs", page=page, size=2).json() for page in range(4)]
    names = [each["data"]["name"] for page in pages for each in page["items"]]

    assert [each["data"]["name"] for each in listed(ask, "jobs")][:8] == names
    assert {len(listed(ask, "jobs"))} == {page["total"] for page in pages}


@pytest.mark.parametrize("path", ["datasets/7000", "jobs/7000", f"runs/{NOBODY}", f"operations/{NOBODY}"])
def test_what_is_not_there_is_not_found(path: str, ask: Asked) -> None:
    said = ask("GET", f"/lineage/{path}")

    assert (404, "not_found") == (said.status_code, said.json()["error"]["code"])


@pytest.mark.parametrize("path", ["datasets/x", f"jobs/{2**63}", "runs/7", "operations/7", "operations?run=7"])
def test_what_is_no_id_is_refused(path: str, ask: Asked) -> None:
    assert 422 == ask("GET", f"/lineage/{path}").status_code
