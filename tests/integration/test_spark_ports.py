"""Spark's ports: on the loopback, closed to whoever does not know the secret, which no command line shows."""

import socket
import struct
from typing import TYPE_CHECKING, Any

import psutil

from penstock.engine.session import guard_callbacks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RPC_REQUEST = 3


def answer_to_a_stranger(port: int) -> bytes:
    """Send what Spark would deserialise, and give what it says."""
    body = b"\xac\xed\x00\x05 no object of yours"
    request = struct.pack(">bqi", _RPC_REQUEST, 7, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
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


def test_only_the_jvm_calls_back_into_the_driver(spark: "SparkSession") -> None:
    guard_callbacks(spark)
    gateway: Any = spark.sparkContext._gateway
    said = b""

    with socket.create_connection(("127.0.0.1", gateway._callback_server.port), timeout=20) as stranger:
        stranger.sendall(b"c\np0\ncall\ni1\ne\n")
        try:
            said = stranger.recv(100)
        except ConnectionResetError:
            said = b"reset"

    assert said in {b"", b"reset"} or said.startswith(b"!x"), said


def test_settings_that_hold_secrets_are_not_on_the_command_line_of_the_jvm(spark: "SparkSession") -> None:
    gateway: Any = spark.sparkContext._gateway
    line = psutil.Process(gateway.proc.pid).cmdline()

    assert "spark.authenticate=true" in line
    assert not [part for part in line if "secret=" in part or "password=" in part.lower()]
