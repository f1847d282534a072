"""A terminal of its own for a command, and what that would get to show."""

import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

CTRL_C = b"\x03"
CTRL_D = b"\x04"


class Terminal:
    """A command that somebody types at."""

    def __init__(self, ours: int, process: "subprocess.Popen[bytes]") -> None:
        self._ours = ours
        self._process = process
        self.shown = ""

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._ours, keys)

    def read_until(self, text: str) -> None:
        """Read what it shows until this is among it; fail if the command ends without."""
        while text not in self.shown:
            part = self._read()
            assert part, f"{text!r} did not appear in {self.shown!r}"
            self.shown += part

    def end(self) -> int:
        """Read what it shows until it ends, and give its exit code."""
        while part := self._read():
            self.shown += part
        return self._process.wait(240)

    def _read(self) -> str:
        try:
            return os.read(self._ours, 65536).decode(errors="replace")
        except OSError:
            return ""  # how Linux tells that the other side is closed


@contextmanager
def terminal(*command: str) -> Iterator[Terminal]:
    """Run a command at a terminal; it ends with the block, whatever happens."""
    ours, theirs = pty.openpty()
    # The leader of a new session gets the terminal that it opens, and with it what Ctrl-C means there.
    opened = ["sh", "-c", 'tty=$0; exec "$@" <"$tty"', os.ttyname(theirs), *command]
    with subprocess.Popen(opened, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
        os.close(theirs)
        try:
            yield Terminal(ours, process)
        finally:
            process.kill()
            os.close(ours)


def on_a_terminal(*command: str) -> str:
    """Run a command whose output is a terminal, and give what that would get."""
    with terminal(*command) as seen:
        seen.end()
    return seen.shown
