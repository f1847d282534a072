"""A Penstock without its extras: whatever needs one says in one line what to install."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from penstock.cli import bench, sim
from penstock.errors import EnvironmentNotReady
from penstock.extras import MODULES
from penstock.lab.bench import peer_runs

ROOT = Path(__file__).parents[2]
LAB = "needs matplotlib, pika, redis, websockets, which a plain Penstock does not include. Nothing was started."
METRICS = "needs prometheus_client, which a plain Penstock does not include. Nothing was started."
# Python finds no module whose place is taken by None, as if it were not installed.
PROGRAM = """
import functools, json, sys
import typer.testing
typer.testing._get_command = functools.cache(typer.testing._get_command)  # as in conftest.py
sys.modules.update(dict.fromkeys(sys.argv[1:]))
from penstock.cli import app
while line := sys.stdin.readline():
    home, commands = json.loads(line)
    ends = [typer.testing.CliRunner().invoke(app, ["--home", home, *command]) for command in commands]
    print(json.dumps([[end.exit_code, end.stdout, end.stderr] for end in ends]), flush=True)
"""
COMMANDS = [
    "demo",
    "scenario list",
    "scenario poison",
    "drill list",
    "drill keys",
    "sim run",
    "sim serve",
    "sim players",
    "bench broker",
    "bench pipeline",
    "bench start",
    "bench growth",
    "bench batching",
    "bench realtime",
    "bench latency",
    "bench logging",
    "bench brokers",
    "bench lineage",
    "bench lineage-growth",
    "bench lineage-sending",
]


def without_extras(program: str, *arguments: str) -> list[Any]:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


Run = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def plain() -> Iterator[Run]:
    """Run commands one after the other, and return the exit code, stdout and stderr of each.

    All tests share one interpreter: to load the commands takes longer than what they do.
    """
    modules = [module for each in MODULES.values() for module in each]
    command = [sys.executable, "-c", PROGRAM, *modules]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, said = process.stdin, process.stdout

        def run(folder: Path, *commands: list[str]) -> list[Any]:
            asked.write(json.dumps([str(folder / "home"), commands]) + "\n")
            asked.flush()
            return json.loads(said.readline())  # type: ignore[no-any-return]

        yield run


def test_every_command_of_the_lab_says_in_one_line_what_to_install(plain: Run, tmp_path: Path) -> None:
    said = plain(tmp_path, *(command.split() for command in COMMANDS))

    told = f"error: the lab (sim, scenario, drill, bench, demo) {LAB} Run: pip install 'penstock[lab]'\n"
    assert {command: [7, "", told] for command in COMMANDS} == dict(zip(COMMANDS, said, strict=True))
    assert [] == list(tmp_path.iterdir())


def test_commands_that_ask_about_lineage_say_in_one_line_what_to_install(plain: Run, tmp_path: Path) -> None:
    commands = ["lineage of table", "lineage from table", "lineage to table", "lineage columns table", "lineage runs"]
    commands += ["lineage search table", "lineage serve", "lineage user add ann", "lineage user list"]
    said = plain(tmp_path, *(command.split() for command in commands))

    missing = (
        "needs alembic, fastapi, jwt, python_multipart, sqlalchemy, uvicorn, which a plain Penstock does not include."
    )
    told = f"error: penstock lineage {missing} Nothing was started. Run: pip install 'penstock[lineage]'\n"
    assert {command: [7, "", told] for command in commands} == dict(zip(commands, said, strict=True))
    assert [] == list(tmp_path.iterdir())


def test_the_console_says_in_one_line_what_to_install(plain: Run, tmp_path: Path) -> None:
    said = plain(tmp_path, ["console"], ["console", "user", "add", "ann"], ["console", "user", "list"])

    missing = "needs fastapi, httpx, jwt, nicegui, python_multipart, uvicorn, which a plain Penstock does not include."
    told = f"error: the console {missing} Nothing was started. Run: pip install 'penstock[console]'\n"
    assert [[7, "", told]] * 3 == said
    assert [] == list(tmp_path.iterdir())


def test_no_command_of_the_lab_is_forgotten_here() -> None:
    groups = {
        f"{group} {command.name or command.callback.__name__}"
        for group, typer in (("sim", sim.app), ("bench", bench.app))
        for command in typer.registered_commands
        if command.callback is not None
    }

    assert groups == {command for command in COMMANDS if command.startswith(("sim ", "bench "))}


def test_the_help_of_the_lab_needs_nothing(plain: Run, tmp_path: Path) -> None:
    said = plain(tmp_path, *([name, "--help"] for name in ("sim", "bench", "demo", "drill", "scenario")))

    assert [(0, "")] * 5 == [(code, stderr) for code, _, stderr in said]


def test_an_address_of_another_broker_says_in_one_line_what_to_install() -> None:
    program = """
import json, sys
sys.modules.update(dict.fromkeys(["matplotlib", "pika", "redis", "websockets"]))
from penstock.cli import bench, sim
from penstock.errors import EnvironmentNotReady
from penstock.logging import log_to
from penstock.transports import open_transport
said = []
for address in sys.argv[1:]:
    for call in (open_transport, lambda address: log_to(address, topic="logs")):
        try:
            call(address)
        except EnvironmentNotReady as error:
            said.append(str(error))
print(json.dumps(said))
"""
    said = without_extras(program, "redis://127.0.0.1:1", "redis-pubsub://127.0.0.1:1", "amqp://127.0.0.1:1")

    schemes = ["redis", "redis", "redis-pubsub", "redis-pubsub", "amqp", "amqp"]
    assert [f"a {scheme}:// address {LAB} Run: pip install 'penstock[lab]'" for scheme in schemes] == said


def test_a_pipeline_with_metrics_is_refused_before_anything_starts(plain: Run, tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    file.write_text(
        "name: orders\nsource: {type: kafka, topics: [orders]}\ndecode: {type: text}\n"
        "sinks: [{type: delta, path: orders}]\nmetrics: {port: 0}\n"
    )
    said = plain(tmp_path, *(["pipeline", each, str(file)] for each in ("check", "run", "start")))

    told = f"error: `metrics` of pipeline 'orders' {METRICS} Run: pip install 'penstock[metrics]'\n"
    assert [[7, "", told]] * 3 == said
    assert [file] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("sink", "extra"), [("{type: iceberg, path: orders}", "iceberg"), ("{type: lineage, store: a.db}", "lineage")]
)
def test_check_says_what_a_sink_needs_that_is_not_installed(plain: Run, tmp_path: Path, sink: str, extra: str) -> None:
    file, decode = tmp_path / "orders.yaml", "openlineage" if extra == "lineage" else "text"
    file.write_text(f"name: orders\nsource: {{topics: [orders]}}\ndecode: {{type: {decode}}}\nsinks: [{sink}]\n")
    ((exit_code, stdout, stderr),) = plain(tmp_path, ["pipeline", "check", str(file)])

    assert (7, "") == (exit_code, stdout)
    assert stderr.startswith(f"error: sink '{extra}' needs ")
    assert stderr.endswith(f"Nothing was started. Run: pip install 'penstock[{extra}]'\n")


def test_an_iceberg_table_is_neither_written_nor_shown_without_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "orders" / "metadata").mkdir(parents=True)
    (tmp_path / "orders" / "metadata" / "00000-1.metadata.json").touch()
    program = """
import json, sys
from pathlib import Path
sys.modules.update(dict.fromkeys(["pyiceberg", "sqlalchemy"]))
from penstock.errors import EnvironmentNotReady
from penstock.kafka.connection import Connection
from penstock.sinks.iceberg import Iceberg
from penstock.sinks.sink import SinkContext
from penstock.sinks.tables import open_table
path = Path(sys.argv[1])
context = SinkContext("iceberg", "orders", Connection(bootstrap_servers="127.0.0.1:1"), path, lambda: None)
said = []
for call in (lambda: Iceberg(path=path).open(context), lambda: open_table(path)):
    try:
        call()
    except EnvironmentNotReady as error:
        said.append(str(error))
print(json.dumps(said))
"""
    said = without_extras(program, str(tmp_path / "orders"))

    told = "needs pyiceberg, sqlalchemy, which a plain Penstock does not include. Nothing was started."
    told += " Run: pip install 'penstock[iceberg]'"
    assert [f"sink 'iceberg' {told}", f"an Iceberg table {told}"] == said


def test_an_extra_names_the_packages_that_its_modules_come_from() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = packages_distributions()

    named = {extra: {canonicalize_name(Requirement(each).name) for each in extras[extra]} for extra in extras}
    found = {extra: {canonicalize_name(packages[module][0]) for module in MODULES[extra]} for extra in MODULES}
    assert named == found


def test_the_peers_of_the_bench_are_in_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_lineage = {"data_rentgen_load.py", "data_rentgen_requirements.txt"}
    there = {script for script, _ in peer_runs.CONTENDERS.values()} | of_lineage | {"requirements.txt"}
    assert there == {path.name for path in peer_runs.SCRIPTS.iterdir() if path.is_file()}

    monkeypatch.setattr(peer_runs, "SCRIPTS", tmp_path / "lib" / "bench" / "peers")
    with pytest.raises(EnvironmentNotReady, match=r"Run it from a clone, or measure without --peers$"):
        peer_runs.Peers(tmp_path, print)
