"""How fast a pipeline reads, what Prometheus and the record of runs are told of it; neither stops it."""

import socket
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from penstock.config import settings
from penstock.config.settings import Settings
from penstock.driver.batch import BatchReport
from penstock.errors import PipelineHalted
from penstock.operate import driver
from penstock.operate import status as states
from penstock.operate.status import Status
from penstock.pipeline.load import load

from conftest import Cli
from support.pipelines import Lab, drive
from support.waiting import until

HANDLERS = """
class Handlers:
    def handle_message(self, message):
        if message.data["id"] % 10 == 4:
            return message.drop()
        return message.failed("no five") if message.data["id"] % 10 == 5 else message
"""


def write(lab: Lab, document: dict[str, Any]) -> Path:
    file = lab.folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def run(lab: Lab, file: Path, given: Settings | None = None, show: driver.Show = lambda _status: None) -> Status:
    """Run a driver as the command does, on the Spark that runs already."""
    return driver.run(load(file), given or settings.load(home=lab.kafka.home), file, show=show)


def scraped(address: str) -> dict[tuple[str, ...], float]:
    """Ask as Prometheus does; give each value by its name and the labels besides the pipeline's."""
    with urllib.request.urlopen(address, timeout=240) as answer:  # noqa: S310 - the driver's own page
        text = answer.read().decode()
    return {
        (sample.name, *(value for name, value in sorted(sample.labels.items()) if name != "pipeline")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_rate_bounds_what_a_batch_takes_and_a_command_changes_it_while_the_pipeline_runs(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("rate", partitions=2)
    lab.send_ids(topic, range(20), partition=0)
    lab.send_ids(topic, range(20, 40), partition=1)
    spec = lab.spec(topic, rate={"events": 6, "per": "1h"}, speed="stream", batch={"max_wait": 0})
    home = lab.kafka.home
    reports: list[BatchReport] = []

    with lab.runner(spec) as runner:
        running = threading.Thread(target=lambda: reports.extend(drive(runner)))
        running.start()
        until(lambda: len(lab.ids()) == 6)
        faster = cli("pipeline", "rate", topic, "--events", 10, "--per", "1h", "--json", home=home)
        until(lambda: len(lab.ids()) == 16)
        off = cli("pipeline", "rate", topic, "--off", home=home)
        until(lambda: len(lab.ids()) == 40)
        runner.stopping.set()
        running.join(240)
    again = cli("pipeline", "rate", topic, "--as-file", home=home)

    assert list(range(40)) == lab.ids()
    assert [6, 10, 24] == [report.read for report in reports]
    assert {"pipeline": topic, "override": True, "rate": {"events": 10, "per": 3_600_000}} == faster.json
    assert f"pipeline '{topic}': no limit" in off.err
    assert "the pipeline file decides" in again.err


def test_a_rate_that_makes_no_sense_is_refused_and_changes_nothing(lab: Lab, cli: Cli) -> None:
    home = lab.kafka.home
    (home / "pipelines" / "rated").mkdir(parents=True, exist_ok=True)

    said = [
        cli("pipeline", "rate", "never-ran", "--events", 5, home=home),
        cli("pipeline", "rate", "rated", "--events", 0, home=home),
        cli("pipeline", "rate", "rated", "--events", 5, "--per", "soon", home=home),
        cli("pipeline", "rate", "rated", "--events", 5, "--off", home=home),
    ]

    assert [3, 2, 2, 2] == [each.code for each in said]
    assert [1] * 4 == [len(each.error_lines) for each in said], said
    assert [] == list((home / "pipelines" / "rated").iterdir())


def test_metrics_are_served_with_the_right_counts_for_as_long_as_the_driver_runs(lab: Lab) -> None:
    topic = lab.kafka.topic("metrics", partitions=2)
    for partition in range(2):
        lab.send_ids(topic, range(100 * partition, 100 * partition + 20), partition=partition)
        lab.send(topic, b"malformed", partition=partition)
    (lab.folder / "handlers_metrics.py").write_text(HANDLERS)
    document = lab.document(
        topic,
        steps=[{"handlers": "handlers_metrics:Handlers", "batchers": {"default": {"batch_size": 5}}}],
        expect=[{"name": "small", "that": "id < 100", "otherwise": "warn"}],
        batch={"max_events": 20},
        metrics={"port": 0},
    )
    file = write(lab, document)
    pages: list[dict[tuple[str, ...], float]] = []
    addresses: list[str] = []

    def look(status: Status) -> None:
        """Look before each batch is told: at none, after the first, after the second."""
        addresses.append(status.metrics)
        pages.append(scraped(status.metrics))

    status = run(lab, file, show=look)

    before, none, one, two = pages
    assert (0, 0, 1) == (
        before["penstock_events_total",],
        before["penstock_batches_total",],
        before["penstock_state", "starting"],
    )
    assert 0 == none["penstock_batches_total",]
    assert (20, 1, 22) == tuple(one[f"penstock_{name}",] for name in ("events_total", "batches_total", "lag_events"))
    # The ids 4 and 14 of each partition are dropped, 5 and 15 dead; the malformed records come in the last batch.
    assert {"written": 32, "dead": 4, "dropped": 4} == {
        outcome: two["penstock_sink_events_total", outcome, "delta"] for outcome in ("written", "dead", "dropped")
    }
    assert (40, 4, 2, 2) == tuple(
        two[f"penstock_{name}",]
        for name in ("events_total", "dead_letters_total", "batches_total", "batch_seconds_count")
    )
    assert (40, 4, 0) == tuple(two[f"penstock_handler_{name}_total",] for name in ("messages", "failed", "retries"))
    assert 16 == two["penstock_expectation_broken_total", "small"]
    assert 0 < two["penstock_handler_batches_total", "default", "size"]
    assert 0 < two["penstock_batch_stage_seconds_total", "job"]
    assert (1, 0) == (two["penstock_state", "running"], two["penstock_state", "waiting"])
    assert (42, 6, 32) == (status.events, status.dead, status.sinks["delta"].written)
    with pytest.raises(urllib.error.URLError):
        scraped(addresses[-1])
    kept = states.load(lab.home(topic).folder)
    assert kept is not None
    assert ("finished", "") == (kept.state, kept.metrics)


def test_a_port_in_use_is_one_clear_line_and_nothing_runs(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("metrics-port")
    lab.send_ids(topic, range(3))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        file = write(lab, lab.document(topic, metrics={"port": port}))

        said = cli("pipeline", "run", file, home=lab.kafka.home)

    assert 6 == said.code
    (line,) = said.error_lines
    assert f"metrics cannot be served at 127.0.0.1:{port}: Address already in use. Nothing ran" in line
    assert "0 takes a free one" in line
    assert not lab.table.exists()


def test_the_record_tells_runs_and_batches_also_of_a_run_that_failed(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("history")
    home = lab.kafka.home
    rule = {"name": "small", "that": "id < 100", "otherwise": "fail"}
    file = write(lab, lab.document(topic, expect=[rule], batch={"max_events": 4}))
    lab.send_ids(topic, range(6))
    lab.send(topic, b"malformed")
    run(lab, file)
    lab.send_ids(topic, [7, 200])
    with pytest.raises(PipelineHalted):
        run(lab, file)

    runs = cli("pipeline", "history", topic, "--json", home=home)
    batches = cli("pipeline", "history", topic, "--batches", "--json", home=home)
    shown = cli("pipeline", "history", topic, "--count", 1, home=home)
    unknown = cli("pipeline", "history", "never-ran", home=home)

    failed, finished = runs.json
    assert ("finished", 2, 7, 1, "") == tuple(finished[key] for key in ("state", "batches", "events", "dead", "reason"))
    assert ("failed", 0, 0) == tuple(failed[key] for key in ("state", "batches", "events"))
    assert "the expectation 'small'" in failed["reason"]
    assert failed["ended"] >= failed["started"] >= finished["ended"]
    assert [(2, 3, 1, 0), (1, 4, 0, 3)] == [
        tuple(each[key] for key in ("batch", "events", "dead", "lag")) for each in batches.json
    ]
    assert {"read": 3, "written": 2, "dead": 1, "dropped": 0} == batches.json[0]["detail"]["sinks"]["delta"]
    assert ("failed" in shown.out, "finished" in shown.out) == (True, False)
    assert (3, "") == (unknown.code, unknown.out)
    assert "no pipeline 'never-ran' has run here" in unknown.err


def test_a_record_that_cannot_be_written_stops_no_pipeline(
    lab: Lab, cli: Cli, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = lab.kafka.topic("history-broken")
    lab.send_ids(topic, range(6))
    home = lab.folder / "home"
    (home / "penstock.db").mkdir(parents=True)
    bootstrap = lab.connection.bootstrap_servers
    file = write(lab, lab.document(topic, batch={"max_events": 3}))

    status = run(lab, file, settings.load(home=home, bootstrap=bootstrap))
    said = capfd.readouterr().err
    asked = cli("--bootstrap", bootstrap, "pipeline", "history", topic, home=home)

    assert ("finished", 2, 6) == (status.state, status.batch, status.events)
    assert list(range(6)) == lab.ids()
    assert 1 == said.count("warning: the record of runs cannot be written")
    assert 7 == asked.code
    assert 1 == len(asked.error_lines), asked.err
