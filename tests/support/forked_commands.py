"""`penstock` commands, forked off a process that has done the imports which would take each of them a second.

Such a command is a process of its own, with its own folder, environment, umask, streams and end, and from `__main__` on
it runs what `python -m penstock` runs. What Python settles when it starts, by its own variables and those of the locale
and the terminal, cannot be changed any more: commands that set one of these are started again.
"""

import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

# What commands import where they need it. Neither Spark nor deltalake, which does not survive a fork.
_IMPORTED_BEFORE = ("penstock.cli", "penstock.kafka.groups", "penstock.broker.cluster", "penstock.operate.range_replay")
_SETTLED_AT_START = ("PYTHON", "LANG", "LC_", "TERM", "TYPER_", "NO_COLOR", "FORCE_COLOR")
_REQUEST_BYTES = 2**20


class Forker:
    """The process that commands are forked off."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
        self._settled = _settled(os.environ)

    def close(self) -> None:
        """End it; it ends by itself, too, when this process does."""
        self._socket.close()
        self._process.wait(60)

    def run(
        self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: bytes, timeout_s: float
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run a command to its end, as `subprocess.run` does with `capture_output`."""
        if _settled(env) != self._settled:
            command = [sys.executable, "-m", "penstock", *arguments]
            return subprocess.run(
                command, cwd=cwd, env=env, input=stdin, capture_output=True, timeout=timeout_s, check=False
            )
        umask = os.umask(0)
        os.umask(umask)
        request = {"arguments": list(arguments), "cwd": str(cwd), "env": dict(env), "umask": umask}
        (their_in, our_in), (our_out, their_out), (our_err, their_err) = os.pipe(), os.pipe(), os.pipe()
        ended, tells = os.pipe()
        passed = [their_in, their_out, their_err, tells]
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], passed)
        finally:
            for each in passed:
                os.close(each)
        with ThreadPoolExecutor(3) as threads, os.fdopen(ended) as report:
            pid = int(report.readline())
            threads.submit(_write, our_in, stdin)
            out, err = threads.submit(_read, our_out), threads.submit(_read, our_err)
            status = threads.submit(report.readline)
            try:
                code = os.waitstatus_to_exitcode(int(status.result(timeout_s)))
                return subprocess.CompletedProcess(arguments, code, out.result(timeout_s), err.result(timeout_s))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise


def _settled(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_SETTLED_AT_START)}


def _write(descriptor: int, content: bytes) -> None:
    with open(descriptor, "wb") as file:  # a command that does not read it to its end may be gone
        try:
            file.write(content)
            file.flush()
        except BrokenPipeError:
            pass


def _read(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        return file.read()


def _serve(requests: socket.socket) -> dict[str, Any]:
    """Fork for each request; return it in the process that is to run it."""
    while True:
        content, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 4)
        if not content:
            os._exit(0)
        if os.fork() == 0:
            requests.close()
            *streams, tells = descriptors
            command = os.fork()
            if command == 0:
                os.close(tells)
                for number, each in enumerate(streams):
                    os.dup2(each, number)
                    os.close(each)
                return cast("dict[str, Any]", json.loads(content))
            _wait(command, streams, tells)
        for each in descriptors:
            os.close(each)
        while _has_ended_child():
            pass


def _wait(command: int, streams: list[int], tells: int) -> None:
    """Report the process id at once, and how it ended when it has."""
    for each in (0, 1, 2, *streams):
        os.close(each)
    os.write(tells, f"{command}\n".encode())
    os.write(tells, f"{os.waitpid(command, 0)[1]}\n".encode())
    os._exit(0)


def _has_ended_child() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _reopen_streams() -> None:
    """Make what Python makes of its three streams when it starts."""
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        before = getattr(sys, name)
        raw = io.FileIO(number, "rb" if number == 0 else "wb", closefd=False)
        buffer = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
        stream = io.TextIOWrapper(buffer, before.encoding, before.errors, line_buffering=number == 2)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    for module in _IMPORTED_BEFORE:
        importlib.import_module(module)
    importlib.import_module("own_ports").keep_to_own_ports()  # a neighbour of this file
    gc.freeze()
    chosen = _serve(socket.socket(fileno=int(sys.argv[1])))
    _reopen_streams()
    os.chdir(chosen["cwd"])
    os.umask(chosen["umask"])
    os.environ.clear()
    os.environ.update(chosen["env"])
    sys.path[0] = chosen["cwd"]
    sys.argv = ["penstock", *chosen["arguments"]]
    runpy.run_module("penstock", run_name="__main__", alter_sys=True)
