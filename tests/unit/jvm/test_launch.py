"""Spark's JVM is launched without waiting for it, and leaves nothing behind if nobody comes for it.

A script stands in for Spark's own: it writes down what it was given, and would run for an hour.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark import accumulators

from penstock.driver import session
from penstock.jvm.launch import Jvm

from support.waiting import until

LAUNCH = "from pathlib import Path; from penstock.driver.session import Starter; Starter('x', Path('logs')).launch()"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder that has both a Java and a Spark."""
    for name, script in {
        "java": "echo 'openjdk version \"17.0.1\"'",
        "spark-submit": f'sleep 3600 >/dev/null 2>&1 & cd {tmp_path}; echo "$$ $!" > pids; cp "$2" settings;'
        ' env > environment; echo "$@" > given; wait',
    }.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
    for name in ("JAVA_HOME", "SPARK_HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield tmp_path
    for each in pids(tmp_path) if (tmp_path / "given").exists() else ():
        with suppress(psutil.Error):
            psutil.Process(each).kill()


def pids(home: Path) -> list[int]:
    until((home / "given").exists)
    return [int(each) for each in (home / "pids").read_text().split()]


def test_a_jvm_that_is_not_needed_any_more_ends_with_all_that_it_started(home: Path) -> None:
    before = set(home.iterdir())
    jvm = Jvm({"spark.app.name": "penstock-x"}, home / "console.log")
    started = pids(home)

    jvm.end()

    until(lambda: not any(psutil.pid_exists(each) for each in started))
    assert {"console.log", "pids", "given", "settings", "environment"} == {
        each.name for each in set(home.iterdir()) - before
    }


def test_a_spark_that_somebody_has_put_above_the_working_folder_is_not_started(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "jars").mkdir()
    (home / "work").mkdir()
    monkeypatch.chdir(home / "work")
    monkeypatch.delenv("SPARK_HOME")

    jvm = Jvm({}, home / "console.log")
    jvm.process.wait(120)  # the Java of this test says its version and ends

    assert not (home / "given").exists()
    jvm.end()


def test_no_setting_is_on_the_command_line_and_secrets_are_in_no_file(home: Path) -> None:
    settings = {"spark.app.name": "penstock-x", "spark.authenticate.secret": "canary-12", "spark.odd=name": "canary-13"}
    jvm = Jvm(settings, home / "console.log")
    try:
        pids(home)
        (file,) = home.glob("penstock-jvm-*/settings")
        modes = [path.stat().st_mode & 0o777 for path in (file, file.parent, home / "console.log")]
    finally:
        jvm.end()

    assert f"--properties-file {file} --load-spark-defaults pyspark-shell\n" == (home / "given").read_text()
    assert "spark.app.name=penstock-x\nspark.odd\\=name=canary-13\n" == (home / "settings").read_text()
    assert [0o600, 0o700, 0o600] == modes


def test_what_spark_starts_finds_no_module_in_the_working_folder_and_has_a_private_place_for_what_is_passing(
    home: Path,
) -> None:
    jvm = Jvm({}, home / "console.log")
    try:
        pids(home)
        (folder,) = home.glob("penstock-jvm-*")
    finally:
        jvm.end()

    environment = (home / "environment").read_text().splitlines()
    assert "PYTHONSAFEPATH=1" in environment
    assert [f'SPARK_SUBMIT_OPTS="-Djava.io.tmpdir={folder}" '] == [each for each in environment if "tmpdir" in each]


def test_what_a_killed_driver_left_goes_with_the_next_launch_and_nothing_else(home: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    names = [f"penstock-jvm-{gone.pid}-left", f"penstock-jvm-{os.getpid()}-used", "penstock-jvm-notes"]
    for name in names:
        (home / name).mkdir()
        (home / name / "file").touch()

    jvm = Jvm({}, home / "console.log")
    pids(home)
    jvm.end()

    assert [False, True, True] == [(home / name).exists() for name in names]


def test_a_program_that_launches_spark_and_then_does_not_need_it_leaves_nothing_running(home: Path) -> None:
    program = f"{LAUNCH}\nimport os, time\nwhile not os.path.exists('given'): time.sleep(0.01)"

    done = subprocess.run([sys.executable, "-c", program], cwd=home, capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)
    until(lambda: not any(psutil.pid_exists(each) for each in pids(home)))


def test_a_driver_with_nothing_to_read_has_no_use_for_pandas_and_pyspark() -> None:
    code = "import sys, penstock.operate.driver\nprint(sorted({'pandas', 'pyspark'} & set(sys.modules)))\n"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]\n" == done.stdout


@pytest.mark.parametrize("is_gone", [True, False], ids=["the JVM is gone", "another failure"])
def test_pysparks_server_of_counters_prints_no_traceback_when_the_jvm_is_gone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, is_gone: bool
) -> None:
    if not is_gone:
        monkeypatch.setattr(accumulators, "read_int", lambda _stream: 1 // 0)
    server: Any = accumulators._start_update_server("token", is_unix_domain_sock=False)
    session.hush_end_of_jvm(server)
    handled, close = threading.Event(), server.shutdown_request

    def closing(request: socket.socket) -> None:
        close(request)
        handled.set()

    monkeypatch.setattr(server, "shutdown_request", closing)

    with socket.create_connection(server.server_address) as jvm:
        jvm.sendall(b"token")
    handled.wait(120)
    server.shutdown()

    assert is_gone == ("Traceback" not in capsys.readouterr().err)
