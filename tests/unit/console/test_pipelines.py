"""The pipelines of a console, by its REST interface, from what drivers leave on the disk."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from fastapi.testclient import TestClient

from penstock.config import project
from penstock.console.api.app import make_app
from penstock.console.service import Console
from penstock.driver.batch import BatchReport
from penstock.driver.paths import PipelinePaths, Progress
from penstock.operate import supervisor
from penstock.operate.belonging import write_file
from penstock.operate.history import RunRecord
from penstock.operate.status import Status

from support.consoles import ADDRESS, Asked, open_console, settings_of

UNREACHABLE = "127.0.0.1:1"
FILE = "name: orders\nsource: {type: kafka, topics: [orders]}\ndecode: {type: text}\nsinks: [{type: delta, path: t}]\n"


@pytest.fixture
def ask(tmp_path: Path) -> Asked:
    paths, file = PipelinePaths.of(tmp_path / "home", "orders"), tmp_path / "orders.yaml"
    file.write_text(FILE)
    paths.logs.mkdir(parents=True)
    paths.driver_log.write_text("one\ntwo\nthree\n")
    status = Status(pipeline="orders", state="failed", pid=1, file=str(file), dead=2, reason="no table", exit_code=6)
    status.save(paths.folder)
    write_file(paths.folder, file)
    return open_console(tmp_path / "home", UNREACHABLE)


def test_a_pipeline_is_listed_with_its_log_and_without_what_it_has_not(ask: Asked) -> None:
    (listed,) = ask("GET", "/pipelines").json()

    assert ("orders", "failed", "no table") == (listed["pipeline"], listed["state"], listed["reason"])
    assert listed == ask("GET", "/pipelines/orders").json()
    assert {"lines": ["two", "three"]} == ask("GET", "/pipelines/orders/log", lines=2).json()
    assert {"lines": []} == ask("GET", "/pipelines/orders/log", of="spark").json()
    assert [[], [], []] == [ask("GET", f"/pipelines/orders/{each}").json() for each in ("runs", "batches", "gaps")]


def test_a_check_says_each_mistake_of_the_file_that_ran_last(ask: Asked, tmp_path: Path) -> None:
    good = ask("POST", "/pipelines/orders/check").json()
    (tmp_path / "orders.yaml").write_text(FILE.replace("decode", "dekode"))
    bad = ask("POST", "/pipelines/orders/check").json()
    refused = ask("POST", "/pipelines/orders/start")

    assert [] == good["mistakes"]
    assert "dekode" in bad["mistakes"][0]
    assert (422, "bad_input") == (refused.status_code, refused.json()["error"]["code"])


@pytest.mark.parametrize("name", ["%2e%2e", "..%2f..", "orders%00", "Orders", "-orders"])
def test_no_name_leads_out_of_the_folder_of_pipelines(name: str, ask: Asked) -> None:
    assert ask("GET", f"/pipelines/{name}/log").status_code in {404, 422}


def test_what_is_stopped_already_is_said_to_be(ask: Asked) -> None:
    said = ask("POST", "/pipelines/orders/stop")

    assert (409, "pipeline 'orders' is not running: it has failed: no table") == (
        said.status_code,
        said.json()["error"]["message"],
    )


def test_the_overview_puts_what_failed_first(ask: Asked) -> None:
    concerns = ask("GET", "/overview").json()["concerns"]

    assert ["cluster", "pipeline:orders"] == [each["about"] for each in concerns]


def test_what_a_fast_pipeline_has_landed_of_late_is_told_whole(
    ask: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Status(pipeline="orders", state="running", pid=os.getpid(), file=str(tmp_path / "orders.yaml"))
    running.save(PipelinePaths.of(tmp_path / "home", "orders").folder)
    monkeypatch.setattr("penstock.operate.status.driver_of", lambda _: psutil.Process())
    record = RunRecord(tmp_path / "home", running)
    for number in range(1, 301):
        record.batch(Progress(BatchReport(number, 4, 0, {}, {}, {}, 0.01), 0))

    (listed,) = ask("GET", "/pipelines").json()

    assert 1200 / 20 == listed["landed_per_s"]
    assert 1200 / 20 == ask("GET", "/overview").json()["landed_per_s"]


NAMED = "pipelines: {orders: {speed: stream}, later: {file: elsewhere.yaml}}\n"


@pytest.fixture
def ask_project(ask: Asked, tmp_path: Path) -> Asked:
    """Ask a console of a project whose file names the pipeline that has run here, and one that has not."""
    file = tmp_path / "penstock.yaml"
    file.write_text(NAMED)
    (tmp_path / "elsewhere.yaml").write_text(FILE.replace("name: orders", "name: later"))
    settings = settings_of(tmp_path / "home", UNREACHABLE)
    console = Console(replace(settings, project_file=file, project=project.load(file)), [])
    return replace(ask, client=TestClient(make_app(console), base_url=ADDRESS, raise_server_exceptions=False))


def test_a_pipeline_of_the_project_file_is_there_before_it_has_ever_run(ask_project: Asked, tmp_path: Path) -> None:
    listed = ask_project("GET", "/pipelines").json()
    new = ask_project("GET", "/pipelines/later").json()
    parts = [ask_project("GET", f"/pipelines/later/{each}").json() for each in ("runs", "batches", "gaps", "log")]
    checked = ask_project("POST", "/pipelines/later/check").json()
    (tmp_path / "penstock.yaml").write_text("pipelines: {orders: {}, other: {}}")
    now = [each["pipeline"] for each in ask_project("GET", "/pipelines").json()]
    (tmp_path / "penstock.yaml").write_text("pipelines: [")

    assert [("later", "stopped"), ("orders", "failed")] == [(each["pipeline"], each["state"]) for each in listed]
    assert (listed[0], str(tmp_path / "elsewhere.yaml")) == (new, new["file"])
    assert [[], [], [], {"lines": []}] == parts
    assert [] == checked["mistakes"]
    assert ["orders", "other"] == now
    assert now == [each["pipeline"] for each in ask_project("GET", "/pipelines").json()]


def test_a_start_goes_on_as_the_project_file_has_it(
    ask_project: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def note(name: str, _settings: Any, file: Path, *_: Any, stream: bool = False) -> None:
        started.append((name, file.name, stream))

    monkeypatch.setattr(supervisor, "start", note)
    answers = [ask_project("POST", f"/pipelines/{each}/start").status_code for each in ("orders", "later")]
    (tmp_path / "elsewhere.yaml").write_text(FILE)
    misnamed = ask_project("POST", "/pipelines/later/start")

    assert ([200, 200], 422) == (answers, misnamed.status_code)
    assert [("orders", "orders.yaml", True), ("later", "elsewhere.yaml", False)] == started
