"""A command line that cannot be understood: one line that says what is wrong, and where to read more."""

import json
import os
import socket
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.broker.ports import find_free
from penstock.cli import app
from penstock.cli.session import Session
from penstock.errors import BrokerUnavailable
from penstock.operate.status import Status


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("--nosuch", "no such option: --nosuch. See: penstock --help"),
        ("nosuch", "no such command 'nosuch'. See: penstock --help"),
        ("topc", "no such command 'topc'. Did you mean 'topic'? See: penstock --help"),
        ("stop", "no such command 'stop'. Stop Kafka with: penstock down; a pipeline with: penstock pipeline stop"),
        ("run orders.yaml", "no such command 'run'. Run a pipeline with: penstock pipeline run FILE"),
        (
            "topic create",
            "missing argument 'name'; write: penstock topic create NAME. See: penstock topic create --help",
        ),
        (
            "topic create a b",
            "unexpected extra argument(s) (b); put values with spaces in quotes. See: penstock topic create",
        ),
        (
            "dead discard orders.dead",
            "unexpected extra argument(s) (orders.dead); name it by an option: --topic, --pipeline, --",
        ),
        (
            "status orders",
            "unexpected extra argument(s) (orders); this command takes none. See: penstock status --help",
        ),
        ("--bootstrap nonsense topic list", "--bootstrap: a server is named as host:port, without a user or"),
        ("topic list --nosuch", "no such option: --nosuch. See: penstock topic list --help"),
        ("topic list --internl", "no such option: --internl. Did you mean --internal? See: penstock topic list --help"),
        ("topic list --home x", "--home goes before the command, as in: penstock --home FOLDER topic list. See: "),
        (
            "topic list --bootstrap-server h:1",
            "--bootstrap goes before the command, as in: penstock --bootstrap HOST",
        ),
        ("topic delete orders --force", "no such option: --force. Did you mean --yes? See: penstock topic delete"),
        ("consume orders --from-beginning", ": consume begins with the oldest record without it. See: "),
        ("topic tail orders --from-beginning", "no such option: --from-beginning. "),
        (
            "group reset g --to-earliest",
            "no such option: --to-earliest: write --to earliest. See: penstock group reset",
        ),
        ("sim run --rate 10", "no such option: --rate. See: penstock sim run --help"),
        ("up -d", "no such option: -d: up leaves Kafka running in the background without it. See: penstock up --help"),
        (
            "produce --topic orders",
            "no such option: --topic. It is given without an option, as in: penstock produce TOPIC [FILE]",
        ),
        ("topic show orders", "no such command 'show'. Did you mean 'describe'? See: penstock topic --help"),
        ("group rm orders", "no such command 'rm'. Did you mean 'delete'? See: penstock group --help"),
        ("pipeline strat orders.yaml", "no such command 'strat'. Did you mean 'start'? See: penstock pipeline --help"),
        ("group frob", "no such command 'frob'; there are list, describe, reset, delete. See: penstock group --help"),
        ("orders.yaml", "no such command 'orders.yaml'. Run a pipeline with: penstock pipeline run orders.yaml"),
        ("table vacuum t --keep 5", "--keep: '5' is not a duration: write a number and one of ms, s, m, h, d, w"),
        ("table vacuum t --keep 5", "such as 5d. No file was deleted"),
        ("table compact t --target 0B", "--target: files become at least 1MB"),
        ("table history t --limit -3", "invalid value for '--limit': it must be at least 0"),
        ("table compact t --target 5", "--target: '5' is not a size: write a number and one of B, KB, MB, GB"),
        ("group reset g", "give exactly one of --to, --by and --like. Nothing was changed. From the beginning again: "),
        ("scenario poison --sink oracle", "'oracle' is not one of 'delta', 'json', 'kafka', 'postgres'"),
        (
            "dead replay --stage expext",
            "'where', 'sink'. Did you mean 'expect'? See: penstock dead replay --help",
        ),
        ("--home", "option '--home' requires an argument. See: penstock --help"),
        ("topic create --partitions", "option '--partitions' requires an argument. See: penstock topic --help"),
        ("dead list --stage", "option '--stage' requires an argument. See: penstock dead --help"),
        (
            "dead list --stage decoed",
            "value for '--stage': 'decoed' is not one of 'decode', 'step', 'handler', 'sql', 'expect', 'where'",
        ),
        ("bench brokers --events -1", "'--events': it must be at least 1000"),
        ("up --nodes three", "'--nodes': it must be a whole number. See: penstock up --help"),
    ],
)
def test_what_is_wrong_with_a_command_line_is_reported_in_one_line(arguments: str, reason: str) -> None:
    said = CliRunner().invoke(app, arguments.split(), prog_name="penstock")

    assert (said.exit_code, said.stdout) == (2, "")
    (line,) = said.stderr.splitlines()
    assert line.startswith("error: ")
    assert reason in line


def test_help_shows_no_type_of_a_value_behind_a_flag_which_takes_none() -> None:
    said = CliRunner().invoke(app, ["dead", "discard", "--help"], prog_name="penstock")

    assert "<bool>" not in said.stdout
    assert "<str>" in said.stdout


def test_several_mistakes_are_a_line_each_also_in_json(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("name: a\nsourse: {}\n")

    with chdir(tmp_path):
        said = CliRunner().invoke(app, ["pipeline", "check", "a.yaml", "--json"], prog_name="penstock")

    expected = ["source: this key is required", "sinks: this key is required", "sourse: this key is not known"]
    lines = json.loads(said.stderr)["error"].split("\n")
    assert expected == [each.split(": ", 1)[1].split(";")[0] for each in lines]


def test_a_name_that_no_pipeline_can_have_is_answered_with_one_that_it_can() -> None:
    said = CliRunner().invoke(app, ["pipeline", "new", "My Orders"], prog_name="penstock")

    assert said.stderr.endswith("Write it as: penstock pipeline new my-orders\n")


def test_the_name_of_a_file_is_answered_with_the_name_of_its_pipeline() -> None:
    said = CliRunner().invoke(app, ["pipeline", "new", "orders.yaml"], prog_name="penstock")

    assert said.stderr.endswith("Write it as: penstock pipeline new orders\n")


@pytest.mark.parametrize(("typed", "meant"), [("help", "penstock --help"), ("version", "penstock --version")])
def test_a_command_that_is_named_at_the_end_can_be_copied_without_a_dot(typed: str, meant: str) -> None:
    said = CliRunner().invoke(app, [typed], prog_name="penstock")

    assert f"error: no such command '{typed}'. See: {meant}\n" == said.stderr


def test_json_before_the_command_is_answered_with_its_place() -> None:
    said = CliRunner().invoke(app, ["--json", "topic", "list"], prog_name="penstock")

    expected = "--json goes after the command, as in: penstock status --json. See: penstock --help"
    assert expected == json.loads(said.stderr)["error"]


@pytest.mark.parametrize("command", ["restart", "down", "node add", "node list", "node remove 2", "node replace 1"])
def test_a_cluster_that_is_not_there_leaves_no_trace_where_it_was_looked_for(command: str, tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["--home", str(tmp_path / "home"), *command.split()], prog_name="penstock")

    assert 3 == said.exit_code
    assert "there is no local cluster in" in said.stderr
    assert [] == list(tmp_path.iterdir())


def test_a_broken_project_file_is_told_when_a_pipeline_is_checked(tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text("clustr: {}\n")
    file = tmp_path / "orders.yaml"
    file.write_text("name: orders\nsource: {topics: [a]}\ndecode: {type: raw}\nsinks: [{type: console}]\n")

    with chdir(tmp_path):
        said = CliRunner().invoke(app, ["pipeline", "check", str(file)], prog_name="penstock")

    assert 2 == said.exit_code
    assert "clustr: this key is not known; did you mean 'cluster'?" in said.stderr


def test_mistakes_in_a_file_are_reported_in_a_line_each(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("name: bad\nsourse: {topics: [a]}\nsinks: [{type: console}]\n")

    said = CliRunner().invoke(app, ["pipeline", "check", str(file)], prog_name="penstock")

    assert [
        f"error: {file}:1:1: source: this key is required",
        f"{file}:2:1: sourse: this key is not known; did you mean 'source'?",
    ] == said.stderr.splitlines()


def test_a_group_without_a_command_shows_its_help() -> None:
    said = CliRunner().invoke(app, ["topic"], prog_name="penstock")

    assert said.exit_code == 2
    assert "Usage: penstock topic" in said.output
    assert "error:" not in said.output


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("pipeline rebuild ordrs", "no pipeline 'ordrs' has run here. Did you mean 'orders'? List those that have"),
        (
            "pipeline stop orders",
            "'orders' is not running: it is stopped. Start it with: penstock pipeline start o.yaml",
        ),
        ("logs registri", "there is no part 'registri'. Did you mean 'registry'?"),
        ("logs ordrs", "no pipeline 'ordrs' has run here. Did you mean 'orders'?"),
        ("connect list", "this project has no Kafka Connect. Start one with: penstock up connect"),
        ("up order", "the project has no part 'order'. It has none: name them in penstock.yaml"),
        ("up regstry", "the project has no part 'regstry'. Did you mean 'registry'?"),
        ("up kafkaa", "the project has no part 'kafkaa'. Did you mean 'kafka'?"),
        ("lineage runs", "Fill one from Kafka with: penstock lineage start; or create an empty one with: penstock"),
        ("cdc status shop", "this project has no Kafka Connect"),
    ],
)
def test_what_is_asked_of_a_part_that_is_not_there_is_answered_with_what_to_type(
    tmp_path: Path, command: str, reason: str
) -> None:
    Status(pipeline="orders", state="stopped", pid=1, file="o.yaml").save(tmp_path / "home" / "pipelines" / "orders")

    with chdir(tmp_path):
        said = CliRunner().invoke(app, ["--home", str(tmp_path / "home"), *command.split()], prog_name="penstock")

    assert said.exit_code in {3, 6}
    (line,) = said.stderr.splitlines()
    assert reason in line


def test_a_connector_has_no_log_and_it_is_said_where_to_look(tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text("connectors: {lines: {connector.class: FileStreamSource}}")

    with chdir(tmp_path):
        said = CliRunner().invoke(app, ["logs", "lines"], prog_name="penstock")

    assert 3 == said.exit_code
    assert (
        "connector 'lines' has no log of its own. Its worker's: penstock logs connect; why it failed: " in said.stderr
    )
    assert "penstock connect show lines --trace" in said.stderr


def test_a_kafka_that_does_not_run_on_this_machine_is_reported_before_a_client_is_opened() -> None:
    with pytest.raises(BrokerUnavailable, match=r"^no Kafka answers at 127\.0\.0\.1:1"):
        Session(bootstrap="127.0.0.1:1").admin()


def test_an_address_without_a_kafka_is_not_answered_with_up() -> None:
    with pytest.raises(BrokerUnavailable) as caught:
        Session(bootstrap="127.0.0.1:1").admin()

    expected = "Check the address, and whether it runs; name none to use the cluster of: penstock up"
    assert expected == caught.value.fix


@pytest.mark.parametrize("command", ["preview", "run", "start --no-wait"])
def test_a_function_that_is_not_there_is_refused_with_its_line_before_anything_starts(
    tmp_path: Path, command: str
) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "rules_of_misuse.py").write_text("def priced(row):\n    return row\n")
    (tmp_path / "p.yaml").write_text(
        "name: p\nsource: {topics: [orders]}\ndecode: {type: json, schema: id bigint}\n"
        "steps:\n  - python: rules_of_misuse:prised\nsinks: [{type: json, path: out}]\n"
    )

    with chdir(tmp_path):
        said = CliRunner().invoke(app, ["pipeline", *command.split(), "p.yaml"], prog_name="penstock")

    assert 2 == said.exit_code
    expected = "error: p.yaml:5:5: steps.0.python: the module 'rules_of_misuse' has no function 'prised'"
    assert f"{expected}; did you mean 'priced'?\n" == said.stderr


def test_up_below_the_folder_of_the_cluster_that_has_the_port_names_that_folder(tmp_path: Path) -> None:
    (tmp_path / ".penstock/broker").mkdir(parents=True, mode=0o700)
    (tmp_path / ".penstock/broker/cluster.json").write_text("{}")
    (tmp_path / "sub").mkdir()

    (port,) = find_free("127.0.0.1", 1)

    with chdir(tmp_path / "sub"), socket.create_server(("127.0.0.1", port)):
        said = CliRunner().invoke(app, ["up", "--port", str(port)], prog_name="penstock")

    assert 6 == said.exit_code
    assert f"port {port} on 127.0.0.1 is in use" in said.stderr
    assert f"but there is one in {tmp_path}: change to that folder, or choose another port" in said.stderr


def test_connectors_in_a_file_without_connect_are_not_left_out_silently(tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text("connectors: {lines: {connector.class: FileStreamSource, file: /x, topic: lines}}\n")

    without = CliRunner().invoke(app, ["--project", str(file), "up", "--dry-run"], prog_name="penstock")
    file.write_text(f"services: {{connect: }}\n{file.read_text()}")
    beside = CliRunner().invoke(app, ["--project", str(file), "up", "--dry-run"], prog_name="penstock")

    assert "warning: the connectors lines are left out, because the project has no Kafka Connect" in without.stderr
    assert "lines" not in without.stdout
    assert "warning" not in beside.stderr
    assert "lines" in beside.stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (["topic", "list", "--josn", "--json"], 2),
        (["--project", "nowhere.yaml", "topic", "list", "--json"], 3),
        (["pipeline", "status", "nobody", "--json"], 3),
    ],
)
def test_errors_are_json_where_the_output_is(tmp_path: Path, arguments: list[str], exit_code: int) -> None:
    command = [sys.executable, "-m", "penstock", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert exit_code == done.returncode
    (line,) = done.stderr.splitlines()
    assert exit_code == json.loads(line)["exit_code"]
    assert json.loads(line)["error"]


def test_a_connection_that_a_server_ends_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*_: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("penstock.cli.session.Session.settings", property(ended))

    said = CliRunner().invoke(app, ["topic", "list"], prog_name="penstock")

    assert (4, "error: a server ended the connection: Broken pipe\n") == (said.exit_code, said.stderr)


def test_a_reader_of_the_output_that_has_gone_is_no_failure(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "penstock", "--home", str(tmp_path), "examples", "list"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)

    assert (0, b"") == (done.returncode, done.stderr)
