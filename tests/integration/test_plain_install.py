"""What somebody gets who only lands events: the wheel without extras, in an environment that was empty."""

import json
import subprocess
import zipfile
from pathlib import Path

import pytest
from deltalake import DeltaTable

from penstock.extras import MODULES
from penstock.kafka.producer import Producer

from conftest import RunningKafka
from support.plain_install import PlainInstall, jar_repository, plain_install

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


def test_without_make_or_a_clone_up_fetches_what_is_missing_and_a_record_comes_back(
    installed: PlainInstall, jar_folder: Path, tmp_path: Path
) -> None:
    variables = {
        "PENSTOCK_CACHE": str(tmp_path / "cache"),
        "PENSTOCK_IVY_SETTINGS": str(jar_repository(jar_folder, tmp_path / "ivysettings.xml")),
    }
    project = tmp_path / "shop"
    project.mkdir()

    def penstock(*arguments: str, given: str = "") -> "subprocess.CompletedProcess[str]":
        return installed.run("penstock", *arguments, cwd=project, given=given, **variables)

    lacking = penstock("doctor")
    up = penstock("up", "--port", "0")
    try:
        made = penstock("topic", "create", "orders")
        sent = penstock("produce", "orders", given='{"id": 1}\n')
        read = penstock("consume", "orders")
    finally:
        down = penstock("down")

    assert "jars are missing or damaged" in lacking.stdout
    assert [0, 0, 0, 0, 0] == [each.returncode for each in (up, made, sent, read, down)], up.stderr
    assert '{"id": 1}\n' == read.stdout


def test_nothing_of_the_extras_can_be_imported_there_and_a_command_that_needs_one_says_so(
    installed: PlainInstall, tmp_path: Path
) -> None:
    modules = [module for each in MODULES.values() for module in each]
    program = "import sys; from importlib.util import find_spec; print(*map(find_spec, sys.argv[1:]))"
    looked = installed.run("python", "-P", "-c", program, *modules, "pytest", cwd=tmp_path)
    demo = installed.run("penstock", "demo", cwd=tmp_path)
    migrate = installed.run("penstock", "lineage", "migrate", cwd=tmp_path)

    assert ["None"] * (len(modules) + 1) == looked.stdout.split()
    for done, extra in ((demo, "lab"), (migrate, "lineage")):
        assert (7, "", 1) == (done.returncode, done.stdout, len(done.stderr.splitlines()))
        assert done.stderr.endswith(f"Run: pip install 'penstock[{extra}]'\n")


def test_the_wheel_has_the_workers_of_the_scenarios_and_no_peers_of_the_bench(installed: PlainInstall) -> None:
    names = zipfile.ZipFile(installed.wheel).namelist()

    assert "penstock/examples/superhero/combat.yaml" in names
    assert "penstock/lineage/lineage.yaml" in names
    assert [] == [name for name in names if "peers" in name or not name.startswith("penstock")]
