"""Spark's ports: on the loopback, closed to whoever does not know the secret, which no command line shows."""

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow as pa

from penstock.driver.session import guard_callbacks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RPC_REQUEST = 3
_A_STRANGER_ENDS_A_JOB = """
import sys, threading, urllib.request
from pathlib import Path
from penstock.driver import session
from support.waiting import until

place = Path(sys.argv[1])
spark = session.start("ui", place, master="local[1,4]", overrides={"spark.ui.enabled": "true", "spark.ui.port": "0"})
context, go_on = spark.sparkContext, place / "go-on"

def held(number):
    until(go_on.exists)
    return number

def end_it():
    until(context.statusTracker().getActiveJobsIds)
    urllib.request.urlopen(f"{session.ui_address()}/jobs/job/kill/?id=0").close()
    go_on.touch()

stranger = threading.Thread(target=end_it)
stranger.start()
print(context.parallelize([7], 1).map(held).collect())
stranger.join()
"""


def answer_to_a_stranger(port: int) -> bytes:
    """Send what Spark would deserialise, and give what it says."""
    body = b"\xac\xed\x00\x05 no object of yours"
    request = struct.pack(">bqi", _RPC_REQUEST, 7, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), timeout=240) as connection:
        connection.sendall(struct.pack(">q", 8 + len(request)) + request)
        said = b""
        while part := connection.recv(4096):
            said += part
            if b"Exception" in said:
                break
    return said


def listening(process: psutil.Process) -> list[Any]:
    return [each.laddr for each in process.net_connections() if each.status == psutil.CONN_LISTEN]


def test_what_a_stranger_sends_to_spark_is_not_deserialised(spark: "SparkSession") -> None:
    port = int(spark.sparkContext.getConf().get("spark.driver.port") or 0)

    said = answer_to_a_stranger(port)

    assert b"SaslMessage" in said, said
    assert b"StreamCorrupted" not in said
    assert b"NettyRpcEnv" not in said


def test_spark_listens_on_the_loopback_only(spark: "SparkSession") -> None:
    jvm: Any = spark.sparkContext._gateway
    process = psutil.Process(jvm.proc.pid)

    found = [each for one in [process, *process.children(recursive=True)] for each in listening(one)]

    assert found
    assert {"127.0.0.1"} == {address.ip.removeprefix("::ffff:") for address in found}


def test_nobody_ends_a_job_by_the_web_pages(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", _A_STRANGER_ENDS_A_JOB, str(tmp_path)]
    path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, env=path)

    assert "[7]\n" == ran.stdout, ran.stderr


def test_only_the_jvm_calls_back_into_the_driver(spark: "SparkSession") -> None:
    guard_callbacks(spark)
    gateway: Any = spark.sparkContext._gateway
    said = b""

    with socket.create_connection(("127.0.0.1", gateway._callback_server.port), timeout=240) as stranger:
        stranger.sendall(b"c\np0\ncall\ni1\ne\n")
        try:
            said = stranger.recv(100)
        except ConnectionResetError:
            said = b"reset"

    assert said in {b"", b"reset"} or said.startswith(b"!x"), said


def test_no_setting_is_on_the_command_line_of_the_jvm(spark: "SparkSession") -> None:
    gateway: Any = spark.sparkContext._gateway
    line = psutil.Process(gateway.proc.pid).cmdline()

    assert "org.apache.spark.deploy.SparkSubmit" in line
    assert not [part for part in line if part.startswith("spark.")]
    assert "true" == spark.sparkContext.getConf().get("spark.authenticate")


def test_what_the_jvm_makes_for_a_while_is_in_a_folder_that_nobody_else_enters(spark: "SparkSession") -> None:
    jvm: Any = spark.sparkContext._jvm

    place = Path(jvm.java.lang.System.getProperty("java.io.tmpdir"))

    assert 0o700 == place.stat().st_mode & 0o777
    assert [] == list(place.glob("settings")), "what Spark was told is not kept"


def test_workers_get_their_work_over_sockets_that_nobody_else_can_open(spark: "SparkSession") -> None:
    jvm: Any = spark.sparkContext._jvm
    place = Path(jvm.java.lang.System.getProperty("java.io.tmpdir"))

    spark.sparkContext.parallelize([1]).map(abs).collect()

    sockets = [each for each in place.iterdir() if each.is_socket()]
    assert sockets
    assert 0o700 == place.stat().st_mode & 0o777


def test_workers_find_no_module_in_the_working_folder(spark: "SparkSession") -> None:
    def paths(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"path": sys.path, "is_safe": [sys.flags.safe_path] * len(sys.path)})

    found = spark.range(1).mapInArrow(paths, "path string, is_safe boolean").collect()

    assert {True} == {each.is_safe for each in found}
    assert not {"", str(Path.cwd())} & {each.path for each in found}
