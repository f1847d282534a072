"""What somebody gets who only lands events: the wheel without extras, in an environment that was empty."""

import json
import zipfile
from pathlib import Path

import pytest
from deltalake import DeltaTable

from penstock.extras import MODULES
from penstock.kafka.producer import Producer

from conftest import RunningKafka
from support.plain_install import PlainInstall, plain_install

PIPELINE = """\
name: {topic}
source: {{type: kafka, topics: [{topic}]}}
decode: {{type: json, schema: "id bigint NOT NULL, cents bigint"}}
steps: [{{sql: "SELECT id, cents / 100 AS price FROM events"}}]
sinks: [{{type: delta, path: orders}}]
speed: scheduled
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> PlainInstall:
    return plain_install(tmp_path_factory.mktemp("plain"))


def test_a_plain_install_lands_events_in_a_delta_table(
    installed: PlainInstall, kafka: RunningKafka, tmp_path: Path
) -> None:
    topic = kafka.topic("plain-install", partitions=2)
    with Producer(kafka.connection) as producer:
        for number in range(1000):
            producer.send(topic, json.dumps({"id": number, "cents": number * 10}).encode(), key=str(number).encode())
        producer.send(topic, b"malformed")
    file = tmp_path / "orders.yaml"
    file.write_text(PIPELINE.format(topic=topic))
    cluster = ["--home", str(tmp_path / "home"), "--bootstrap", kafka.connection.bootstrap_servers]

    done = installed.run("penstock", *cluster, "pipeline", "run", file, "--json", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    status = json.loads(done.stdout)
    assert ("finished", 1001, 1) == (status["state"], status["events"], status["dead"])
    rows = DeltaTable(tmp_path / "orders").to_pyarrow_table().select(["id", "price"]).to_pylist()
    assert [{"id": number, "price": number / 10} for number in range(1000)] == sorted(rows, key=lambda row: row["id"])


def test_nothing_of_the_extras_can_be_imported_there_and_a_command_that_needs_one_says_so(
    installed: PlainInstall, tmp_path: Path
) -> None:
    modules = [module for each in MODULES.values() for module in each]
    program = "import sys; from importlib.util import find_spec; print(*map(find_spec, sys.argv[1:]))"
    looked = installed.run("python", "-P", "-c", program, *modules, "pytest", cwd=tmp_path)
    demo = installed.run("penstock", "demo", cwd=tmp_path)

    assert ["None"] * (len(modules) + 1) == looked.stdout.split()
    assert (7, "", 1) == (demo.returncode, demo.stdout, len(demo.stderr.splitlines()))
    assert demo.stderr.endswith("Run: pip install 'penstock[lab]'\n")


def test_the_wheel_has_the_workers_of_the_scenarios_and_no_peers_of_the_bench(installed: PlainInstall) -> None:
    names = zipfile.ZipFile(installed.wheel).namelist()

    assert "penstock/examples/superhero/combat.yaml" in names
    assert [] == [name for name in names if "peers" in name or not name.startswith("penstock")]
