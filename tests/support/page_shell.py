"""A page, typed by its reader: every block in order, in one folder, and what it shows compared with what comes.

Commands are typed into bash. `penstock` is there either as it is installed, or, for tests that cannot wait for a Spark
at every command, as a caller of this process: the same command line, with the Spark that the other tests use.
"""

import contextlib
import io
import json
import logging
import os
import re
import select
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from penstock.cli import app

from support.pages import Block, blocks

_INSTALLED = """\
#!/bin/sh
[ "$1" = up ] && [ ! -e .penstock/broker/cluster.json ] && set -- "$@" --port 0   # others have 9092
exec {python} -P -m penstock "$@"
"""
_CALLER = """\
#!{python} -SE
import json, os, socket, sys
if {{*sys.argv[1:2], " ".join(sys.argv[1:3])}} & {apart!r}:
    os.execv({installed!r}, [{installed!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as caller:
    caller.connect({address!r})
    asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(caller, [len(asked).to_bytes(4, "big")], [0, 1, 2])
    caller.sendall(asked)
    sys.exit(int(caller.makefile().readline()))
"""
# What leaves processes behind is no child of ours: a node that we started and that ended would wait for us to notice.
_APART = {
    "up",
    "down",
    "restart",
    "node",
    "pipeline start",
    "pipeline stop",
    "sim",
    "scenario",
    "drill",
    "demo",
    "bench",
}
_KEPT = """
status=$?
pwd > "$PAGE_STATE/folder"; export -p > "$PAGE_STATE/variables"
exit $status
"""
_SESSION = """\
import sys
names = {"__name__": "__main__"}
for line in sys.stdin:
    exec(eval(line), names)
    print("\\0", flush=True)
"""
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?")
_TOPIC_ID = re.compile(r"\b[\w-]{22}\b")


class PageShell:
    """Types the blocks of one page."""

    def __init__(self, folder: Path, *, installed: bool, addresses: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._installed = installed
        self._addresses = dict(addresses or {})
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        # Short, for the address of a socket has no more than 108 bytes.
        self._state = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="page-")))
        self._listener = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        self._listener.bind(str(self._state / "s"))
        self._listener.listen()
        program, installed = self._state / "bin" / "penstock", self._state / "installed"
        program.parent.mkdir()
        known = {
            "python": sys.executable,
            "address": str(self._state / "s"),
            "apart": _APART,
            "installed": str(installed),
        }
        for file, text in ((installed, _INSTALLED), (program, _INSTALLED if self._installed else _CALLER)):
            file.write_text(text.format(**known), encoding="utf-8")
            file.chmod(0o755)
        path = f"{program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "PAGE_STATE": str(self._state), "COLUMNS": "200"}
        (self._state / "folder").write_text(str(self.folder), encoding="utf-8")
        (self._state / "variables").touch()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def type(self, page: str) -> str:
        """Do what the page says, from its first block to its last; give everything that was said."""
        said = ""
        self._differences: list[str] = []
        for block in blocks(page):
            if block.not_run or block.part_of:
                continue
            text = self._with_addresses(block.text)
            if block.file:
                self._write(block.file, text)
            elif block.language == "console":
                for command, shown in block.steps():
                    said += self._console(block, self._with_addresses(command), shown)
            elif block.language == "sh":
                code, out = self._bash(text)
                assert 0 == code, f"{block.where}: exit code {code}\n{out}"
                said += out
            elif block.language == "python":
                said += self._python(block, text)
        assert not self._differences, "the page shows something else:\n\n" + "\n".join(self._differences)
        return said

    @property
    def _working_folder(self) -> Path:
        return Path((self._state / "folder").read_text(encoding="utf-8").strip())

    def _with_addresses(self, text: str) -> str:
        for state in self._working_folder.glob(".penstock/broker/cluster.json"):
            port = json.loads(state.read_bytes())["nodes"][0]["client_port"]
            text = text.replace("127.0.0.1:9092", f"127.0.0.1:{port}")
        for shown, there in self._addresses.items():
            text = text.replace(shown, there)
        return text

    def _write(self, name: str, text: str) -> None:
        path = self._working_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _console(self, block: Block, command: str, shown: list[str]) -> str:
        code, out = self._bash(command)
        fails = any(line.startswith("error:") for line in shown)
        assert fails == (code != 0), f"{block.where}: $ {command}\nexit code {code}\n{out}"
        if shown and not (expected(shown, block.varies).fullmatch(plain(out)) and is_aligned(shown, block.varies, out)):
            self._differences.append(f"{block.where}: $ {command}\n{out}")
        return out

    def _bash(self, text: str) -> tuple[int, str]:
        """Run a script where the last one ended. What is said goes to a file: servers outlive a pipe."""
        script = 'cd "$(cat "$PAGE_STATE/folder")"; . "$PAGE_STATE/variables"\n'
        # Braces do not do: a script that ends the shell would not keep its folder.
        script += f"trap {shlex.quote(_KEPT)} EXIT\n{text}"
        said = self._state / "said"
        with said.open("wb") as output:
            shell = subprocess.Popen(
                ["/bin/bash", "-e", "-o", "pipefail", "-c", script],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
            while shell.poll() is None:
                if select.select([self._listener], [], [], 0.02)[0]:
                    self._answer()
        return shell.returncode, said.read_text(encoding="utf-8", errors="replace")

    def _answer(self) -> None:
        """Run the command that the shell has called `penstock` for, with its folder, variables, input and output."""
        caller, _ = self._listener.accept()
        with caller:
            head, files, *_ = socket.recv_fds(caller, 4, 3)
            arguments, folder, variables = json.loads(_received(caller, int.from_bytes(head, "big")))
            with _in_place_of_ours(files, folder, variables):
                code = _penstock(arguments)
            caller.sendall(f"{code}\n".encode())

    def _python(self, block: Block, text: str) -> str:
        """Run a program, which has the names of those before it on the page."""
        if self._installed:
            return self._python_apart(block, text)
        out = io.StringIO()
        root = logging.getLogger()
        handlers, level = list(root.handlers), root.level
        with contextlib.chdir(self._working_folder), contextlib.redirect_stdout(out):
            try:
                exec(compile(text, block.where, "exec"), self._names)  # noqa: S102 - it is what the page shows
            finally:
                for handler in set(root.handlers) - set(handlers):
                    handler.close()
                root.handlers, root.level = handlers, level
        return out.getvalue()

    def _python_apart(self, block: Block, text: str) -> str:
        if not hasattr(self, "_session"):
            self._session = self._stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", _SESSION],
                    cwd=self._working_folder,
                    env=self._environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            self._stack.callback(self._session.kill)
        assert self._session.stdin is not None
        assert self._session.stdout is not None
        self._session.stdin.write(f"{text!r}\n")
        self._session.stdin.flush()
        said = ""
        for line in self._session.stdout:
            if line == "\0\n":
                return said
            said += line
        raise AssertionError(f"{block.where}: {said}")


def _received(caller: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += caller.recv(size - len(found))
    return found


def _penstock(arguments: list[str]) -> int:
    try:
        app(arguments, prog_name="penstock")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@contextlib.contextmanager
def _in_place_of_ours(files: list[int], folder: str, variables: dict[str, str]) -> Iterator[None]:
    ours, environment = (sys.stdin, sys.stdout, sys.stderr), dict(os.environ)
    with contextlib.ExitStack() as stack:
        theirs = [stack.enter_context(open(fd, mode)) for fd, mode in zip(files, "rww", strict=True)]  # noqa: PTH123 - files that are open
        stack.enter_context(contextlib.chdir(folder))
        os.environ.clear()
        os.environ.update(variables)
        sys.stdin, sys.stdout, sys.stderr = theirs
        try:
            yield
        finally:
            sys.stdin, sys.stdout, sys.stderr = ours
            os.environ.clear()
            os.environ.update(environment)


def settled(text: str) -> str:
    """Leave out what differs by its nature: ports, ids of topics and moments."""
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:9092", text)
    text = _MOMENT.sub(lambda moment: moment[0] if moment[0].startswith("2026-01-31") else "moment", text)
    return _TOPIC_ID.sub("id", text)


def plain(text: str) -> str:
    """Leave out how lines are broken and aligned, too."""
    return " ".join(settled(text).split())


def is_aligned(shown: list[str], varies: tuple[str, ...], out: str) -> bool:
    """Return whether the columns of tables stand where the page has them."""
    came = {line.rstrip() for line in settled(out).splitlines()}
    tables = [settled(line).rstrip() for line in shown if "  " in line.strip() and "..." not in line]
    return all(line in came for line in tables if not any(word in line for word in varies))


def expected(shown: list[str], varies: tuple[str, ...]) -> re.Pattern[str]:
    """Make a pattern of what a page shows: `...` is anything, and so is a word that varies."""
    pattern = re.escape(plain("\n".join(shown)))
    pattern = re.sub(r"(\\ )?(\\\.){3}(\\ )?", ".*", pattern)
    for word in varies:
        pattern = pattern.replace(re.escape(word), r"\S+")
    return re.compile(pattern)
