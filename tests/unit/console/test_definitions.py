"""A pipeline's file in the console: shown, tried out without being changed, and how its expectations are met."""

from pathlib import Path

import pytest

from penstock.driver.batch import BatchReport, SinkCount
from penstock.driver.paths import PipelinePaths, Progress
from penstock.operate.belonging import write_file
from penstock.operate.history import RunRecord
from penstock.operate.status import Status

from support.consoles import Asked, open_console

UNREACHABLE = "127.0.0.1:1"
FILE = """name: orders
source: {type: kafka, topics: [orders]}
decode: {type: json, schema: "id bigint, amount double"}
expect:
  - {name: amount is known, that: amount IS NOT NULL, otherwise: drop}
  - {name: id is known, that: id IS NOT NULL}
sinks: [{type: delta, path: t}]
"""


@pytest.fixture
def ask(tmp_path: Path) -> Asked:
    return of_file(tmp_path, "orders.yaml", FILE)


def of_file(folder: Path, name: str, text: str) -> Asked:
    paths, file = PipelinePaths.of(folder / "home", "orders"), folder / name
    file.write_text(text)
    paths.folder.mkdir(parents=True)
    Status(pipeline="orders", state="finished", pid=1, file=str(file)).save(paths.folder)
    write_file(paths.folder, file)
    return open_console(folder / "home", UNREACHABLE)


def test_the_file_is_shown_as_it_is(ask: Asked, tmp_path: Path) -> None:
    assert {"file": str(tmp_path / "orders.yaml"), "language": "yaml", "text": FILE} == ask(
        "GET", "/pipelines/orders/definition"
    ).json()


def test_typed_text_is_checked_as_the_file_would_be_and_the_file_stays(ask: Asked, tmp_path: Path) -> None:
    def mistakes(text: str) -> list[str]:
        answer = ask("POST", "/pipelines/orders/definition/check", {"text": text}).json()
        found: list[str] = answer["mistakes"]
        return found

    assert [] == mistakes(FILE)
    assert ["3:1: dekode: this key is not known; did you mean 'decode'?"] == mistakes(FILE.replace("decode", "dekode"))
    assert mistakes(FILE.replace("[orders]}", "[orders}"))[0].startswith("2:38: not valid YAML")
    assert ["name: this is pipeline 'orders', and another name is another pipeline"] == mistakes(
        FILE.replace("name: orders", "name: others")
    )
    assert FILE == (tmp_path / "orders.yaml").read_text()


def test_no_module_that_typed_text_names_is_imported(ask: Asked, tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    step = FILE + "steps: [{python: 'planted:step'}]\n"

    ask("POST", "/pipelines/orders/definition/check", {"text": step})

    assert not (tmp_path / "ran").exists()


def test_a_program_is_shown_and_never_run_for_it(tmp_path: Path) -> None:
    program = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    ask = of_file(tmp_path, "orders.py", program)

    shown = ask("GET", "/pipelines/orders/definition").json()
    refused = ask("POST", "/pipelines/orders/definition/check", {"text": program})

    assert ("python", program) == (shown["language"], shown["text"])
    assert (422, []) == (refused.status_code, ask("GET", "/pipelines/orders/expectations").json())
    assert not (tmp_path / "ran").exists()


def test_expectations_are_shown_with_the_share_of_events_that_met_them(ask: Asked, tmp_path: Path) -> None:
    before = ask("GET", "/pipelines/orders/expectations").json()
    status = Status(pipeline="orders", state="running", pid=1, file="orders.yaml")
    record = RunRecord(tmp_path / "home", status)
    for number, broken in enumerate((1, 3), start=1):
        count = SinkCount(read=8, written=8 - broken, dead=0, dropped=broken)
        report = BatchReport(
            batch=number,
            read=8,
            dead=0,
            sinks={"delta": count},
            rules={"amount is known": broken},
            ends={},
            seconds=1.0,
        )
        record.batch(Progress(report=report, lag=0))
    met = ask("GET", "/pipelines/orders/expectations").json()

    assert [None, None] == [each["pass_rate"] for each in before]
    assert [("amount is known", 16, 4, 0.75), ("id is known", 16, 0, 1.0)] == [
        (each["name"], each["events"], each["broken"], each["pass_rate"]) for each in met
    ]
