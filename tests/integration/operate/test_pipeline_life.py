"""A pipeline in the background: started, seen, killed, started again by its supervisor, stopped cleanly."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest
import yaml
from deltalake import DeltaTable

from penstock.driver.paths import Progress
from penstock.kafka import groups
from penstock.operate import history

from conftest import Cli
from support.drivers import end_leftovers, start_driver
from support.pipelines import Lab
from support.waiting import eventually, until


def landed(lab: Lab) -> list[int]:
    return lab.ids() if DeltaTable.is_deltatable(str(lab.table)) else []


def processes_with(word: Path) -> list[int]:
    """Find processes whose command line names a file of the test."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(word) in part for part in process.cmdline()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def jvms_of(driver: int) -> list[int]:
    """Find the JVMs that a driver has started; others of its children may end while they are looked at."""
    found = []
    for each in psutil.Process(driver).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if each.name() == "java":
                found.append(each.pid)
    return found


def listening(driver: int) -> set[str]:
    """Return the addresses on which a driver and all that it started listen."""
    found: set[str] = set()
    for process in [psutil.Process(driver), *psutil.Process(driver).children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            open_ports = [each for each in process.net_connections() if each.status == psutil.CONN_LISTEN]
            found |= {each.laddr.ip.removeprefix("::ffff:") for each in open_ports}
    return found


def test_a_supervised_pipeline_outlives_a_killed_driver_and_a_killed_spark_and_stops_cleanly(
    lab: Lab, cli: Cli
) -> None:
    topic = lab.kafka.topic("supervised")
    home = lab.kafka.home
    file = lab.folder / "pipeline.yaml"
    spark = {"spark.ui.enabled": "true", "spark.ui.port": "0"}
    file.write_text(yaml.safe_dump(lab.document(topic, speed="stream", batch={"max_wait": "100ms"}, spark=spark)))

    def status() -> dict[str, Any]:
        said = cli("pipeline", "status", topic, "--json", home=home)
        return dict(said.json) if said.code == 0 else {"state": "none"}

    lab.send_ids(topic, range(10))
    started = cli("pipeline", "start", file, "--master", "local[1,4]", home=home)
    try:
        running = status()
        first = landed(lab)
        twice = cli("pipeline", "start", file, home=home)
        listed = cli("pipeline", "list", "--json", home=home)
        os.kill(running["pid"], signal.SIGKILL)
        lab.send_ids(topic, range(10, 20))
        until(lambda: landed(lab) == list(range(20)))
        restarted = eventually(status, lambda seen: seen["state"] == "running" and seen["pid"] != running["pid"])
        addresses = listening(restarted["pid"])
        os.kill(jvms_of(restarted["pid"])[0], signal.SIGKILL)
        lab.send_ids(topic, range(20, 30))
        until(lambda: landed(lab) == list(range(30)))
        logs = cli("pipeline", "logs", topic, home=home)
    finally:
        stopped = cli("pipeline", "stop", topic, home=home)

    assert 0 == started.code, started.err
    assert f"pipeline '{topic}' is running: 10 events so far, lag 0" in started.err
    assert ("running", 0) == (running["state"], running["lag"])
    assert list(range(10)) == first
    assert 6 == twice.code
    assert "running already" in twice.err
    assert [(topic, "running")] == [
        (each["pipeline"], each["state"]) for each in listed.json if each["pipeline"] == topic
    ]
    assert "the driver ended with signal 9; starting it again" in logs.out
    assert {"127.0.0.1"} == addresses
    assert "Spark's JVM ended while the pipeline ran: killed by signal 9" in logs.out
    assert "the driver ended with exit code 4; starting it again" in logs.out
    assert 0 == stopped.code, stopped.err
    assert "by force" not in stopped.err
    until(lambda: not processes_with(file))
    assert list(range(30)) == landed(lab)
    lab.send_ids(topic, range(30, 33))
    ended = status()
    assert ("stopped", 3) == (ended["state"], ended["lag"])
    assert 6 == cli("pipeline", "stop", topic, home=home).code


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("spark starts", signal.SIGTERM),
        ("spark starts", signal.SIGINT),
        ("it streams", signal.SIGTERM),
        pytest.param("it streams", signal.SIGINT, marks=pytest.mark.soak),
    ],
)
def test_a_driver_that_is_told_to_end_does_so_at_once(lab: Lab, moment: str, number: signal.Signals) -> None:
    topic = lab.kafka.topic("ended")
    file = lab.folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(lab.document(topic, speed="stream", batch={"max_wait": "100ms"})))
    lab.send_ids(topic, range(10))
    driver = start_driver(lab.kafka.home, file, lab.folder / "driver.log", "--master", "local[1,4]")
    try:
        if moment == "spark starts":
            driver.reach(lambda: bool(jvms_of(driver.process.pid)))
        else:
            driver.reach(lambda: landed(lab) == list(range(10)))
        driver.process.send_signal(number)
        code = driver.wait()
    finally:
        end_leftovers()

    assert 0 == code, driver.said
    assert "Traceback" not in driver.said
    assert ["stopped"] == [each.state for each in history.runs(lab.kafka.home, topic, 5)]


def test_a_run_that_was_to_catch_up_and_is_told_to_end_before_ends_as_interrupted(lab: Lab) -> None:
    topic = lab.kafka.topic("interrupted")
    file = lab.folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(lab.document(topic, speed="stream")))
    lab.send_ids(topic, range(10))
    driver = start_driver(lab.kafka.home, file, lab.folder / "driver.log", "--master", "local[1,4]", "--once")
    try:
        driver.reach(lambda: bool(jvms_of(driver.process.pid)))
        driver.process.send_signal(signal.SIGINT)
        code = driver.wait()
    finally:
        end_leftovers()

    assert 130 == code, driver.said
    assert f"Go on with: penstock pipeline run {file} --once\n" in driver.said


def test_the_lag_group_shows_how_far_behind_a_pipeline_is_and_cannot_be_reset(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("lag", partitions=2)
    lab.send_ids(topic, range(5))
    lab.send_ids(topic, range(5, 7), partition=1)
    lab.run(lab.spec(topic))
    caught_up = groups.describe(lab.kafka.admin(), f"penstock.{topic}").lag
    lab.send_ids(topic, range(7, 10))

    behind = groups.describe(lab.kafka.admin(), f"penstock.{topic}").lag
    refused = cli("group", "reset", f"penstock.{topic}", "--to", "earliest", "--yes", home=lab.kafka.home)
    lab.run(lab.spec(topic))

    assert (0, 3) == (caught_up, behind)
    assert 6 == refused.code
    assert "under another name into another table" in refused.err
    assert list(range(10)) == lab.ids()


def test_a_sink_that_was_taken_out_of_the_file_is_no_lag(lab: Lab) -> None:
    topic = lab.kafka.topic("fewer")
    lab.send_ids(topic, range(5))
    both = [{"type": "delta", "path": str(lab.table)}, {"type": "json", "path": str(lab.folder / "lines")}]
    lab.run(lab.spec(topic, sinks=both))
    lab.send_ids(topic, range(5, 8))
    heard: list[Progress] = []

    with lab.runner(lab.spec(topic)) as runner:
        runner.run(heard.append)

    assert [0] == [each.lag for each in heard]
    assert 0 == groups.describe(lab.kafka.admin(), f"penstock.{topic}").lag


def test_status_of_what_never_ran_and_of_what_ended_is_reported(lab: Lab, cli: Cli) -> None:
    unknown = cli("pipeline", "status", "never-ran", home=lab.kafka.home)
    stopping = cli("pipeline", "stop", "never-ran", home=lab.kafka.home)

    assert (3, 3) == (unknown.code, stopping.code)
    assert "penstock pipeline list" in unknown.err


def test_a_pipeline_whose_broker_is_missing_waits_says_why_and_can_be_stopped(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "pipeline.yaml"
    parts = {"source": {"topics": ["none"]}, "decode": {"type": "raw"}, "sinks": [{"type": "console"}]}
    file.write_text(yaml.safe_dump({"name": "brokerless", **parts}))

    def listed() -> dict[str, Any]:
        return next(iter(cli("pipeline", "list", "--json", home=tmp_path).json), {})

    started = cli("--bootstrap", "127.0.0.1:1", "pipeline", "start", file, home=tmp_path)
    # While a driver runs it waits, too, and has not ended with any code yet.
    waiting = eventually(listed, lambda seen: ("waiting", 4) == (seen["state"], seen["exit_code"]))
    stopped = cli("pipeline", "stop", "brokerless", home=tmp_path)
    again = cli("pipeline", "stop", "brokerless", home=tmp_path)

    assert (4, 0, 6) == (started.code, stopped.code, again.code)
    assert "pipeline 'brokerless' is waiting: no Kafka answers at 127.0.0.1:1" in started.err
    assert "stop it with: penstock pipeline stop brokerless" in started.err
    assert "no Kafka answers at 127.0.0.1:1" in waiting["reason"]
    assert "stopped" == listed()["state"]


def test_ctrl_c_in_start_says_whether_the_pipeline_goes_on(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "pipeline.yaml"
    parts = {"source": {"topics": ["none"]}, "decode": {"type": "raw"}, "sinks": [{"type": "console"}]}
    file.write_text(yaml.safe_dump({"name": "left", **parts}))
    home = ["--home", str(tmp_path), "--bootstrap", "127.0.0.1:1"]
    command = [sys.executable, "-m", "penstock", *home, "pipeline", "start", str(file)]

    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as early:
        until((tmp_path / "pipelines" / "left" / "status.json").exists)
        early.send_signal(signal.SIGINT)
        said_early = early.communicate(timeout=60)[1]
    stopped_early = cli("pipeline", "stop", "left", home=tmp_path)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as late:
        assert late.stderr is not None
        next(line for line in late.stderr if line.startswith("waiting: no Kafka answers"))
        late.send_signal(signal.SIGINT)
        goes_on = late.communicate(timeout=60)[1]
    stopped = cli("pipeline", "stop", "left", home=tmp_path)

    # Whether its supervisor ran by then, only the machine's speed says; the answer is true either way.
    was_started = "pipeline 'left' was not started" not in said_early
    assert (130, 0 if was_started else 6) == (early.returncode, stopped_early.code)
    assert was_started == ("pipeline 'left' keeps running in the background." in said_early)
    assert (130, 0) == (late.returncode, stopped.code)
    assert "pipeline 'left' keeps running in the background." in goes_on
    assert "stop it with: penstock pipeline stop left" in goes_on
    until(lambda: not processes_with(file))


def test_an_idle_stream_runs_without_spark(lab: Lab) -> None:
    topic = lab.kafka.topic("idle")
    heard: list[Progress] = []
    spec = lab.spec(topic, speed="stream")
    with lab.runner(spec) as runner:

        def tell(progress: Progress) -> None:
            heard.append(progress)
            runner.stopping.set()

        runner.run(tell)

    assert [Progress(None, 0, is_idle=True)] == heard


def test_a_stream_says_what_waits_before_spark_has_started(lab: Lab) -> None:
    topic = lab.kafka.topic("waiting")
    lab.send_ids(topic, [1, 2])
    heard: list[Progress] = []
    with lab.runner(lab.spec(topic, speed="stream")) as runner:

        def tell(progress: Progress) -> None:
            heard.append(progress)
            runner.stopping.set()

        with pytest.raises(KeyboardInterrupt):  # it was told to stop before it had started Spark
            runner.run(tell)

    assert [Progress(None, 2)] == heard


def test_a_start_that_fails_says_why_with_the_drivers_exit_code(lab: Lab, cli: Cli) -> None:
    topic = f"{lab.kafka.topic('there')}-not"
    file = lab.folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(lab.document(topic, speed="stream")))

    failed = cli("pipeline", "start", file, home=lab.kafka.home)
    listed = cli("pipeline", "status", topic, "--json", home=lab.kafka.home)

    assert 3 == failed.code
    assert f"pipeline '{topic}' failed: there is no topic '{topic}'" in failed.err
    assert ("failed", 3) == (listed.json["state"], listed.json["exit_code"])


def test_a_watched_pipeline_is_shown_until_it_has_ended(lab: Lab, cli: Cli) -> None:
    topic = lab.kafka.topic("watched")
    file = lab.folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(lab.document(topic, speed="scheduled")))
    started = cli("pipeline", "start", file, "--no-wait", home=lab.kafka.home)

    watched = cli("pipeline", "status", topic, "--watch", "--json", home=lab.kafka.home)

    assert 0 == started.code, started.err
    assert f"pipeline '{topic}' is starting" in started.err
    assert "finished" == orjson.loads(watched.out.splitlines()[-1])["state"]
