"""One Kafka node: its folder, its process, its log."""

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from penstock.errors import EnvironmentNotReady
from penstock.jvm import class_archive
from penstock.jvm.java import find_java, java_environment
from penstock.jvm.log4j import log4j_properties
from penstock.private import OWNER_ONLY, OWNER_ONLY_SHELL, make_missing_private, write_private

_MAIN_CLASS = "kafka.Kafka"
_QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def class_archive_of(java: Path, classpath: Sequence[Path]) -> Path:
    """Name the archive of Kafka's classes: it is beside the folder of the jars."""
    return class_archive.path_of(classpath[0].parents[1], "kafka", java, classpath[0].parent, *classpath)


def quick_start(java: Path, classpath: Sequence[Path]) -> list[str]:
    """Return the options of a JVM that lives for a moment: a quick start matters more than peak speed."""
    return [*_QUICK_START, *class_archive.using(class_archive_of(java, classpath))]


@dataclass(frozen=True)
class Node:
    """A node's folder on disk and the process that may be running from it."""

    id: int
    folder: Path

    @property
    def data(self) -> Path:
        """Kafka's log directory."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """What the node has to say."""
        return self.folder / "logs" / "server.log"

    @property
    def properties(self) -> Path:
        """The node's server.properties."""
        return self.folder / "server.properties"

    @property
    def temporary(self) -> Path:
        """The JVM's temporary folder, from which Kafka loads the native libraries of its codecs."""
        return self.folder / "tmp"

    @property
    def _console(self) -> Path:
        return self.folder / "logs" / "console.log"

    @property
    def _formatted(self) -> Path:
        return self.folder / "formatted"

    @property
    def _pid_file(self) -> Path:
        return self.folder / "pid"

    def process(self) -> psutil.Process | None:
        """Find the running process. A stale pid file is ignored, even if another process has the pid now."""
        try:
            noted = psutil.Process(int(self._pid_file.read_text(encoding="utf-8")))
            if self._is_ours(noted):
                return noted
        except (OSError, ValueError, OverflowError, psutil.Error):
            pass
        # A command that was killed between the start of a node and the note of it leaves one without the other.
        return next((each for each in psutil.process_iter() if self._is_ours(each)), None)

    def _is_ours(self, process: psutil.Process) -> bool:
        # Known by its command line rather than by its start: clocks are set, command lines stay. Anybody can give a
        # process that command line, so it has to be run by us, or by whose folder it is: root sees to others' nodes.
        with suppress(psutil.Error, OSError):
            return process.cmdline()[-2:] == [_MAIN_CLASS, str(self.properties)] and process.uids().real in {
                os.getuid(),
                self.folder.stat().st_uid,
            }
        return False

    @property
    def has_lost_its_data(self) -> bool:
        """Whether the data folder was formatted, and is no longer."""
        return self._formatted.exists() and not (self.data / "meta.properties").exists()

    def unformat(self) -> None:
        """Let the next start format the node, for one that has lost its data."""
        self._formatted.unlink(missing_ok=True)

    def configure(self, properties: str) -> None:
        """Write what the node will start with."""
        make_missing_private(self.log.parent)
        make_missing_private(self.data)
        make_missing_private(self.temporary)
        write_private(self.properties, properties.encode())
        log_settings = log4j_properties(self.log, level="info", files=5)
        write_private(self.folder / "log4j2.properties", log_settings.encode())

    def format(self, cluster_id: str, classpath: Sequence[Path]) -> None:
        """Prepare the data folder once.

        The marker is written after a whole format and before the first start: without it the node has never run, so
        whatever half a format left behind holds no record and is cleared.
        """
        if self._formatted.exists():
            return
        for leftover in (self.data / "meta.properties", self.data / "bootstrap.checkpoint"):
            leftover.unlink(missing_ok=True)
        java, _ = find_java()
        command = [
            str(java),
            *quick_start(java, classpath),
            "-cp",
            _joined(classpath),
            "kafka.tools.StorageTool",
            "format",
        ]
        command += ["--cluster-id", cluster_id, "--config", str(self.properties), "--ignore-formatted"]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=120, env=java_environment(), umask=0o077
        )
        if done.returncode != 0:
            reason = _last_words((done.stdout + done.stderr).splitlines())
            raise EnvironmentNotReady(
                f"node {self.id} could not be prepared: {reason}",
                safe="No record was in it",
                fix="Look with: penstock doctor",
            )
        write_private(self._formatted, f"{cluster_id}\n".encode())

    def start(self, classpath: Sequence[Path], heap_bytes: int, java_options: Sequence[str] | None = None) -> None:
        """Start the process, detached: it outlives the command that started it."""
        java, _ = find_java()
        if java_options is None:
            java_options = class_archive.using(class_archive_of(java, classpath))
        heap_kib = heap_bytes // 1024
        command = [
            *OWNER_ONLY_SHELL,
            str(java),
            f"-Xms{heap_kib // 2}k",
            f"-Xmx{heap_kib}k",
            *["-XX:+UseG1GC", "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true"],
            *java_options,
            # Kafka unpacks native libraries here and loads them. In /tmp others can be faster: it would run theirs.
            f"-Djava.io.tmpdir={self.temporary}",
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            *["-cp", _joined(classpath), _MAIN_CLASS, str(self.properties)],
        ]
        write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        redirections = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(self._console), write, OWNER_ONLY),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        # posix_spawn rather than Popen: nobody in this process waits for a node.
        pid = os.posix_spawn(command[0], command, java_environment(), file_actions=redirections, setsid=True)
        _wait_for_command_line(pid)
        write_private(self._pid_file, f"{pid}\n".encode())

    def stop(self, timeout_s: float) -> None:
        """Stop cleanly, and after `timeout_s` by force, which loses no acknowledged record either."""
        process = self.process()
        if process is not None:
            try:
                process.terminate()
                process.wait(timeout_s)
            except psutil.TimeoutExpired:
                process.kill()
                process.wait(timeout_s)
            except psutil.NoSuchProcess:
                pass
        self._pid_file.unlink(missing_ok=True)

    def last_words(self) -> str:
        """Return the reason a node gave for stopping, from its logs."""
        tails = [_tail(path) for path in (self.log, self._console)]
        reasons = [reason for reason in map(_last_words, tails) if reason]
        # A crash of the JVM itself is no Java error: its report is whatever stands last on the console.
        spoken = [line for lines in reversed(tails) for line in reversed(lines) if line.strip("# ")]
        if reasons or not spoken:
            return reasons[0] if reasons else "it gave no reason"
        return f"it gave no reason; its last line: {spoken[0][:300]}"


def _wait_for_command_line(pid: int) -> None:
    """Wait until the kernel shows the node's own command line.

    After the spawn it is empty for a moment, then the shell's, and at its exec empty again: no node's.
    """
    try:
        while not (found := psutil.Process(pid).cmdline()) or found[: len(OWNER_ONLY_SHELL)] == [*OWNER_ONLY_SHELL]:
            time.sleep(0.001)
    except psutil.Error:
        return  # gone already; whoever looks for the process will say so


def _joined(classpath: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, classpath))


def _tail(path: Path, lines: int = 200) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    except OSError:
        return []


def _last_words(lines: Sequence[str]) -> str:
    """Find the first cause among the last complaints: stack traces bury it."""
    signs = (" ERROR ", " FATAL ", "Exception", "Caused by")
    complaints = [line for line in lines if any(sign in line for sign in signs)]
    causes = [line for line in complaints if "Caused by" in line or "Exception:" in line or "Error:" in line]
    chosen = causes[-1:] or complaints[-1:] or [line for line in lines[-1:] if "ERROR" in line or "Error" in line]
    return chosen[0].strip()[:300] if chosen else ""
