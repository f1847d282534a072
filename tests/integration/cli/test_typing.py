"""Commands at a terminal: what somebody is told who types, waits or presses Ctrl-C."""

import sys

from penstock.kafka import groups
from penstock.kafka.reader import read_all

from conftest import Cli, RunningKafka
from support.terminals import CTRL_C, CTRL_D, terminal
from support.waiting import until


def test_whoever_types_records_is_told_how_and_after_ctrl_c_how_many_were_acknowledged(kafka: RunningKafka) -> None:
    topic = kafka.topic()

    with terminal(sys.executable, "-m", "penstock", "--home", str(kafka.home), "produce", topic) as seen:
        seen.read_until("one per line; Ctrl-D ends")
        seen.type(b"ada\ngrace\n")
        until(lambda: 2 == len(read_all(kafka.connection, topic)))
        seen.type(CTRL_C)
        code = seen.end()

    assert 130 == code
    assert "interrupted: 2 records acknowledged" in seen.shown
    assert [b"ada", b"grace"] == [record.value() for record in read_all(kafka.connection, topic)]


def test_ctrl_d_ends_typing(kafka: RunningKafka) -> None:
    topic = kafka.topic()

    with terminal(sys.executable, "-m", "penstock", "--home", str(kafka.home), "produce", topic) as seen:
        seen.read_until("Ctrl-D ends")
        seen.type(b"ada\n" + CTRL_D)
        code = seen.end()

    assert (0, True) == (code, "1 record acknowledged" in seen.shown)


def test_whoever_waits_for_records_is_told_so_and_after_ctrl_c_what_the_group_has(
    kafka: RunningKafka, cli: Cli
) -> None:
    topic = kafka.topic()
    cli("produce", topic, home=kafka.home, stdin="ada\n")

    with terminal(
        *[sys.executable, "-m", "penstock", "--home", str(kafka.home)],
        *["consume", topic, "--follow", "--group", f"{topic}-group"],
    ) as seen:
        seen.read_until("waiting for records; Ctrl-C ends")
        until(lambda: {(topic, 0): 1} == groups.committed(kafka.admin(), f"{topic}-group"))
        seen.type(CTRL_C)
        code = seen.end()

    assert 130 == code
    assert f"1 record printed, 1 of them committed for group '{topic}-group'" in seen.shown
