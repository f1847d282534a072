"""The pipelines of a console, by its REST interface, from what drivers leave on the disk."""

from pathlib import Path

import pytest

from penstock.driver.paths import PipelinePaths
from penstock.operate.belonging import write_file
from penstock.operate.status import Status

from support.consoles import Asked, open_console

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
