import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from penstock.broker.node import Node, class_archive_of

from support.waiting import until

PATIENT = "import signal; print(flush=True); signal.pause()"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(1, tmp_path)


def imitate(program: str, properties: Path) -> "subprocess.Popen[bytes]":
    """Start a process whose command line ends as a node's does, and wait until it is at work."""
    command = [sys.executable, "-c", program, "kafka.Kafka", str(properties)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.fixture
def child(node: Node) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that looks like the node's own."""
    with imitate(PATIENT, node.properties) as process:
        yield process
        process.kill()


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A node of another cluster."""
    with imitate(PATIENT, tmp_path / "elsewhere" / "server.properties") as process:
        yield process
        process.kill()


def remember(node: Node, pid: int) -> None:
    (node.folder / "pid").write_text(f"{pid}\n")


def test_without_a_file_there_is_no_process(node: Node) -> None:
    assert node.process() is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"\xff\xfe",
        b"-1",
        b"0",
        b"1",
        b"99999999999999999999",
    ],
    ids=repr,
)
def test_a_file_of_garbage_names_no_process(node: Node, content: bytes) -> None:
    (node.folder / "pid").write_bytes(content)

    assert node.process() is None


def test_a_number_that_now_belongs_to_another_program_is_no_process_of_ours(node: Node) -> None:
    remember(node, os.getpid())

    assert node.process() is None


def test_a_number_that_now_belongs_to_another_node_is_no_process_of_ours(
    node: Node, stranger: "subprocess.Popen[bytes]"
) -> None:
    remember(node, stranger.pid)

    assert node.process() is None


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_process_that_a_stranger_gave_the_command_line_of_a_node_is_not_found(
    node: Node, child: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch, *, is_noted: bool
) -> None:
    owner = psutil.Process.uids
    strangers = SimpleNamespace(real=12345)
    monkeypatch.setattr(psutil.Process, "uids", lambda self: strangers if self.pid == child.pid else owner(self))
    if is_noted:
        remember(node, child.pid)

    assert node.process() is None


def test_a_running_process_is_found(node: Node, child: "subprocess.Popen[bytes]") -> None:
    remember(node, child.pid)

    found = node.process()

    assert found is not None
    assert child.pid == found.pid


def test_a_running_process_is_found_though_its_number_was_never_noted(
    node: Node, child: "subprocess.Popen[bytes]"
) -> None:
    found = node.process()

    assert found is not None
    assert child.pid == found.pid


def test_a_node_gets_none_of_the_shells_secrets_and_makes_private_files(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "java"
    program.write_text(
        "#!/bin/sh\nenv > data/environment\numask > data/umask\nmv data/umask data/done\nexec sleep 60\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr("penstock.broker.node.find_java", lambda: (program, 17))
    monkeypatch.setenv("KAFKA_PASSWORD", "canary")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.chdir(node.folder)
    before = os.umask(0)
    try:
        node.configure("")
        node.start([tmp_path / "jars" / "kafka.jar"], heap_bytes=1024 * 1024)
        pid = int((node.folder / "pid").read_text())
        until((node.data / "done").exists)
    finally:
        os.umask(before)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)

    environment = (node.data / "environment").read_text()
    assert ("canary" in environment, "LC_TIME=C" in environment) == (False, True)
    made = [path for path in node.folder.rglob("*") if path != program]
    assert [] == [path for path in made if path.stat().st_mode & 0o077]


def test_a_killed_process_is_not_found(node: Node, child: "subprocess.Popen[bytes]") -> None:
    remember(node, child.pid)
    child.kill()
    child.wait()

    assert node.process() is None


def test_a_dead_process_that_nobody_buried_is_not_found(node: Node, child: "subprocess.Popen[bytes]") -> None:
    remember(node, child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    assert node.process() is None


def test_stopping_ends_the_process_and_forgets_it(node: Node, child: "subprocess.Popen[bytes]") -> None:
    remember(node, child.pid)

    node.stop(timeout_s=120.0)

    assert not psutil.pid_exists(child.pid)
    assert [] == list(node.folder.iterdir())


def test_a_process_that_does_not_heed_the_signal_is_stopped_by_force(node: Node) -> None:
    with imitate(STUBBORN, node.properties) as child:
        remember(node, child.pid)

        node.stop(timeout_s=0.1)

        assert not psutil.pid_exists(child.pid)


def test_stopping_never_touches_a_process_that_only_has_the_same_number(
    node: Node, stranger: "subprocess.Popen[bytes]"
) -> None:
    remember(node, stranger.pid)

    node.stop(timeout_s=120.0)

    assert stranger.poll() is None
    assert [] == list(node.folder.iterdir())


def test_stopping_what_has_stopped_is_no_error(node: Node, child: "subprocess.Popen[bytes]") -> None:
    remember(node, child.pid)
    child.send_signal(signal.SIGKILL)
    child.wait()

    node.stop(timeout_s=120.0)

    assert [] == list(node.folder.iterdir())


def test_a_node_just_started_is_seen_at_once_though_the_kernel_shows_its_command_line_late(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    shown = psutil.Process.cmdline
    looks: list[list[str]] = [[], [], []]
    monkeypatch.setattr("penstock.broker.node.find_java", lambda: (program, 17))
    monkeypatch.setattr(psutil.Process, "cmdline", lambda self: looks.pop() if looks else shown(self))
    node.configure("")

    node.start([tmp_path / "jars" / "kafka.jar"], heap_bytes=1024 * 1024)
    pid = int((node.folder / "pid").read_text())

    try:
        assert [] == looks, "the command line was awaited"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_virtual_machine_that_crashed_has_its_last_line_reported(node: Node) -> None:
    console = node.folder / "logs" / "console.log"
    console.parent.mkdir(parents=True)
    console.write_text("# A fatal error has been detected by the Java Runtime Environment:\n#\n# SIGSEGV (0xb)\n#\n")

    assert "it gave no reason; its last line: # SIGSEGV (0xb)" == node.last_words()


def test_a_node_starts_with_the_archive_of_kafkas_classes_if_there_is_one(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "java"
    program.write_text('#!/bin/sh\necho "$@" > said\nmv said options\nexec sleep 60\n')
    program.chmod(0o755)
    monkeypatch.setattr("penstock.broker.node.find_java", lambda: (program, 17))
    monkeypatch.chdir(tmp_path)
    classpath = [tmp_path / "jars" / "kafka.jar"]
    node.configure("")
    told = []

    for _ in range(2):
        node.start(classpath, heap_bytes=1024 * 1024)
        until((tmp_path / "options").exists)
        os.kill(int((node.folder / "pid").read_text()), signal.SIGKILL)
        told.append((tmp_path / "options").read_text())
        (tmp_path / "options").unlink()
        archive = class_archive_of(program, classpath)
        archive.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        archive.touch(0o600)

    assert [False, True] == [f"-XX:SharedArchiveFile={archive} " in each for each in told]


def test_a_node_unpacks_native_libraries_where_nobody_else_can_put_one(
    node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "java"
    program.write_text('#!/bin/sh\necho "$@" > said\nmv said options\nexec sleep 60\n')
    program.chmod(0o755)
    monkeypatch.setattr("penstock.broker.node.find_java", lambda: (program, 17))
    monkeypatch.chdir(tmp_path)
    node.configure("")

    node.start([tmp_path / "jars" / "kafka.jar"], heap_bytes=1024 * 1024)
    until((tmp_path / "options").exists)
    os.kill(int((node.folder / "pid").read_text()), signal.SIGKILL)

    assert f"-Djava.io.tmpdir={node.folder / 'tmp'} " in (tmp_path / "options").read_text()
    assert 0o700 == stat.S_IMODE((node.folder / "tmp").stat().st_mode)
