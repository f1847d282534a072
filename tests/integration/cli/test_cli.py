"""The command line as a user types it: what comes out where, and how bad input ends."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from penstock.broker import planning
from penstock.config.project import LocalCluster
from penstock.kafka import groups, topics
from penstock.kafka.consumer import Consumer

from conftest import Cli, RunningKafka, Said
from support.waiting import eventually

DOWN = ["--bootstrap", "127.0.0.1:1"]


def one_clear_line(said: Said, code: int) -> str:
    assert said.code == code, said.err
    assert "Traceback" not in said.err
    (line,) = said.error_lines
    assert "" == said.out
    return line


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (
            ["topic", "describe", "no-such"],
            3,
            "List topics with: penstock topic list",
        ),
        (["topic", "delete", "no-such", "--yes"], 3, "there is no topic 'no-such'"),
        (["topic", "purge", "no-such", "--yes"], 3, "there is no topic 'no-such'"),
        (["topic", "alter", "no-such", "--retention", "1d"], 3, "there is no topic 'no-such'"),
        (["topic", "alter", "no-such"], 2, "nothing to change"),
        (["topic", "create", "bad name"], 2, "bad name"),
        (["topic", "create", "x", "--retention", "soon"], 2, "--retention: 'soon' is not a duration"),
        (["topic", "create", "x", "--cleanup", "shred"], 2, "--cleanup"),
        (["topic", "create", "x", "--config", "nonsense"], 2, "NAME=VALUE"),
        (["topic", "create", "x", "--config", "no.such.setting=1"], 2, "no.such.setting"),
        (["topic", "create", "x", "--config", "segment.mss=1"], 2, "Did you mean 'segment.ms'?"),
        (["topic", "create", "x", "--config", "retention.bytes=1"], 2, "Say --retention-size instead"),
        (["topic", "apply"], 3, "there is no penstock.yaml"),
        (["group", "describe", "no-such"], 3, "there is no group 'no-such'"),
        (["group", "delete", "no-such", "--yes"], 3, "there is no group 'no-such'"),
        (["group", "reset", "g", "--to", "sometime"], 2, "not a position in a topic"),
        (["group", "reset", "g"], 2, "exactly one of"),
        (["group", "reset", "no-such", "--to", "earliest"], 3, "there is no group 'no-such'. List them with"),
        (["group", "reset", "g", "--to", "earliest", "--topic", "no-such"], 3, "there is no topic 'no-such'"),
        (["produce", "no-such"], 3, "make this one with: penstock topic create no-such"),
        (["consume", "no-such"], 3, "there is no topic 'no-such'"),
        (["consume", "x", "--from", "1", "--tail", "2"], 2, "not both"),
        (["user", "list"], 6, "is not secure"),
        (["acl", "allow", "u", "--producer"], 2, "--producer needs --topic"),
        (["acl", "allow", "u", "--operation", "fly", "--topic", "t"], 2, "'fly' is not an operation"),
        (["node", "remove", "9"], 3, "there is no node 9"),
        (["restart", "--node", "9"], 3, "there is no node 9"),
        (["logs", "--node", "9"], 3, "node 9 has no log"),
        (["up", "--heap", "huge"], 2, "--heap: 'huge' is not a size"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_gets_one_clear_line_and_its_exit_code(
    kafka: RunningKafka, cli: Cli, arguments: list[str], code: int, complaint: str
) -> None:
    assert complaint in one_clear_line(cli(*arguments, home=kafka.home), code)


def test_a_misspelt_setting_of_a_topic_is_answered_with_the_nearest(kafka: RunningKafka, cli: Cli) -> None:
    topic = kafka.topic()

    near = one_clear_line(cli("topic", "alter", topic, "--config", "segment.mss=60000", home=kafka.home), 2)
    unset = one_clear_line(cli("topic", "alter", topic, "--unset", "max.message.byte", home=kafka.home), 2)

    assert "Kafka knows no topic setting 'segment.mss'. Nothing was changed. Did you mean 'segment.ms'?" in near
    assert "Did you mean 'max.message.bytes'?" in unset


def test_a_group_that_cannot_be_moved_is_told_before_anybody_is_asked(kafka: RunningKafka, cli: Cli) -> None:
    topic, group = kafka.topic(partitions=2), f"{kafka.topic()}-group"
    cli("produce", topic, home=kafka.home, stdin="1\n")

    new = cli("group", "reset", group, "--topic", topic, "--to", "earliest", home=kafka.home)
    with Consumer(kafka.connection, [topic], group) as member:
        next(member.batches())
        active = cli("group", "reset", group, "--to", "earliest", home=kafka.home)
    misspelt = cli("group", "reset", f"{group}s", "--to", "earliest", home=kafka.home)
    partition = cli("group", "reset", group, "--to", "earliest", "--partition", "7", home=kafka.home)

    assert f"there is no group '{group}' yet: it will begin there" in new.err
    assert f"see them with: penstock group describe {group}" in one_clear_line(active, 6)
    assert f"there is no group '{group}s'. Did you mean '{group}'?" in one_clear_line(misspelt, 3)
    assert f"there is no partition 7 in {topic}; there are 0 to 1" in one_clear_line(partition, 3)


@pytest.mark.parametrize(
    "arguments",
    [["topic", "list"], ["group", "list"], ["produce", "x"], ["consume", "x"], ["topic", "create", "x"]],
    ids=" ".join,
)
def test_a_broker_that_is_down_is_said_in_one_line_within_seconds(cli: Cli, arguments: list[str]) -> None:
    line = one_clear_line(cli(*DOWN, *arguments), 4)

    assert "no Kafka answers at 127.0.0.1:1" in line


def test_a_home_that_cannot_be_made_is_said_in_one_line(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    line = one_clear_line(cli("up", "--port", 0, home=tmp_path / "file"), 7)

    assert "Not a directory" in line


def test_an_address_that_nobody_can_be_sent_to_is_refused(cli: Cli) -> None:
    assert "is not an address that clients could be sent to" in one_clear_line(cli("up", "--host", "0.0.0.0"), 2)  # noqa: S104


def test_unknown_options_end_with_code_2(cli: Cli) -> None:
    assert 2 == cli("topic", "list", "--nonsense").code
    assert 2 == cli("fly").code


def test_deleting_and_purging_ask_first(kafka: RunningKafka, cli: Cli) -> None:
    topic, home = kafka.topic(), kafka.home
    cli("produce", topic, home=home, stdin="a\nb\n")

    for command in ("delete", "purge"):
        said = cli("topic", command, topic, home=home)
        assert (1, True) == (said.code, "Nothing was changed" in said.err)
    kept = cli("consume", topic, home=home).out
    purged = cli("topic", "purge", topic, "--yes", "--json", home=home)
    deleted = cli("topic", "delete", topic, "--yes", home=home)

    assert "a\nb\n" == kept
    assert 2 == purged.json["records"]
    assert deleted.code == 0
    assert topic not in {each.topic for each in topics.list_topics(kafka.admin())}


def test_a_group_is_moved_only_after_the_dry_run_was_confirmed(kafka: RunningKafka, cli: Cli) -> None:
    topic, home, group = kafka.topic(), kafka.home, "moved-by-cli"
    cli("produce", topic, home=home, stdin="1\n2\n3\n")
    cli("consume", topic, "--group", group, "--count", "3", home=home)

    plan = cli("group", "reset", group, "--to", "earliest", "--json", home=home)
    untouched = groups.committed(kafka.admin(), group)
    moved = cli("group", "reset", group, "--by", "-1", "--yes", home=home)
    shown = cli("group", "describe", group, "--json", home=home)

    assert [("reads again", 3)] == [(step["effect"], step["records"]) for step in plan.json]
    assert {(topic, 0): 3} == untouched
    assert moved.code == 0
    assert 1 == shown.json["lag"]


def test_apply_shows_the_plan_and_makes_it_so_and_asks_before_records_could_go(
    kafka: RunningKafka, cli: Cli, tmp_path: Path
) -> None:
    assert cli("init", tmp_path).code == 0
    assert 6 == cli("init", tmp_path).code
    topic = "applied-by-cli"
    file = tmp_path / "penstock.yaml"
    file.write_text(f"topics: {{{topic}: {{partitions: 2, retention: 2d}}}}")

    dry = cli("topic", "apply", "--dry-run", home=kafka.home)
    made = cli("topic", "apply", "--json", home=kafka.home)
    file.write_text(f"topics: {{{topic}: {{partitions: 2, retention: 1d}}}}")
    refused = cli("topic", "apply", home=kafka.home)
    kept = topics.describe(kafka.admin(), topic)
    agreed = cli("topic", "apply", "--yes", home=kafka.home)
    again = cli("topic", "apply", home=kafka.home)

    assert "1 change planned, none made" in dry.err
    assert ["create"] == [change["action"] for change in made.json]
    assert "Nothing was changed" in refused.err
    assert ({"retention.ms": "172800000"}, 2) == (kept.config, len(kept.partitions))
    assert "1 change made" in agreed.err
    assert "nothing to do" in again.err


def test_doctor_finds_this_machine_fit(kafka: RunningKafka, cli: Cli) -> None:
    said = cli("doctor", "--json", home=kafka.home)

    assert {"java", "jars", "folder", "disk", "memory", "ports", "broker", "clock"} == {
        check["check"] for check in said.json
    }
    assert [] == [check for check in said.json if not check["ok"]]
    assert said.code == 0


def test_doctor_says_what_to_do_without_java_jars_and_broker(cli: Cli, tmp_path: Path) -> None:
    said = cli("doctor", "--json", PENSTOCK_CACHE=str(tmp_path / "empty"), JAVA_HOME=str(tmp_path))
    fixes = {check["check"]: check["fix"] for check in said.json if not check["ok"]}

    assert said.code == 1
    assert "-jre-headless" in fixes["java"]
    assert "penstock doctor --fix" in fixes["jars"]
    assert "broker" not in fixes  # none was made yet: nothing is wrong with that


def test_doctor_says_what_to_do_about_a_cluster_that_is_down(cli: Cli, tmp_path: Path) -> None:
    made = tmp_path / "broker"
    made.mkdir(mode=0o700)
    planning.new_cluster(made, "4.3.1", LocalCluster(port=0)).save(made)

    said = cli("doctor", "--json", home=tmp_path)

    assert "penstock up" in {check["check"]: check["fix"] for check in said.json}["broker"]


def test_listing_topics_loads_neither_spark_nor_what_starts_a_broker(kafka: RunningKafka) -> None:
    program = (
        "import sys\n"
        "from penstock.cli import app\n"
        f"app(['--bootstrap', '{kafka.connection.bootstrap_servers}', 'topic', 'list'], standalone_mode=False)\n"
        "print(sorted({'pyspark', 'psutil', 'cryptography'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "[]" == done.stdout.splitlines()[-1]


def test_completion_is_offered_for_the_shell() -> None:
    # Which shell it is, is seen from the process that asks.
    command = ["/bin/bash", "-c", f"{sys.executable} -m penstock --show-completion; exit $?"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)

    assert said.returncode == 0
    assert "_completion()" in said.stdout


def test_a_command_that_is_told_to_end_ends_what_it_has_started(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock", "--home", str(tmp_path), "bench", "batching"]
    process = psutil.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def servers() -> list[psutil.Process]:
        found = []
        for child in process.children():
            with suppress(psutil.NoSuchProcess):  # what prepares the server's folder ends by itself
                found += [child] if "postgres" in child.name() else []
        return found

    (server,) = eventually(servers)

    process.terminate()

    assert b"interrupted" in process.communicate(timeout=240)[1]
    assert 130 == process.returncode
    assert not server.is_running()


def test_the_kafka_of_another_project_is_named_and_not_used(kafka: RunningKafka, cli: Cli, tmp_path: Path) -> None:
    server = kafka.connection.bootstrap_servers
    (tmp_path / "penstock.yaml").write_text(f"cluster: {{port: {server.rpartition(':')[2]}}}\n")
    options = ("--project", tmp_path / "penstock.yaml")

    said = cli(*options, "topic", "list", home=tmp_path / "home")
    status = cli(*options, "status", home=tmp_path / "home")
    meant = cli("--bootstrap", server, "topic", "list", home=tmp_path / "home")

    assert 6 == said.code
    assert (
        f"the Kafka at {server} is not this project's: it is cluster {kafka.cluster.existing().cluster_id}" in said.err
    )
    assert f"--bootstrap {server}" in said.err
    assert (4, True) == (status.code, "is not this project's" in status.err)
    assert 0 == meant.code, meant.err
