"""The Spark job of the example reports its lineage, straight into Kafka and through the gateway."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.kafka.reader import read_all

from conftest import RunningKafka
from support.gateways import running_gateway

_EXAMPLE = Path(__file__).parents[3] / "examples" / "lineage_spark.py"


def _outcome(kafka: RunningKafka, *options: str) -> set[str]:
    """Run the example; give what it says of its events, without the names of folders."""
    command = [sys.executable, str(_EXAMPLE), "--bootstrap", kafka.connection.bootstrap_servers, *options]
    said = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert 0 == said.returncode, said.stderr[-2000:]
    return {f"{line.split()[0]} {line.partition(': ')[2]}" for line in said.stdout.splitlines()}


@pytest.mark.soak
def test_a_spark_job_reports_the_same_lineage_by_kafka_and_by_http(kafka: RunningKafka, tmp_path: Path) -> None:
    by_kafka = _outcome(kafka)
    with running_gateway(kafka.connection.bootstrap_servers, "input.runs", folder=tmp_path) as gateway:
        by_http = _outcome(kafka, "--gateway", str(gateway.client.base_url))

    wanted = {"COMPLETE [] -> []", "COMPLETE [] -> ['orders']", "COMPLETE ['orders'] -> ['spent']"}
    assert wanted <= by_kafka & by_http
    partitions: dict[bytes | None, set[int | None]] = {}
    for message in read_all(kafka.connection, "input.runs"):
        assert json.loads(message.value() or b"")["run"]["runId"]
        partitions.setdefault(message.key(), set()).add(message.partition())
    assert [1] * len(partitions) == [len(each) for each in partitions.values()]
