"""Runs the peers, each in a process of its own, in an environment that has only them installed."""

import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable

import penstock
from penstock.errors import EnvironmentNotReady
from penstock.interpreter import SAFE_PYTHON
from penstock.kafka.connection import Connection
from penstock.private import distrust_way, make_missing_public

CONTENDERS = {
    "confluent-kafka and orjson, by hand": ("loop.py", "at least once, malformed left out"),
    "the same loop, into Delta": ("table_loop.py", "at least once, malformed left out"),
    "Quix Streams": ("quix.py", "at least once, malformed left out"),
    "Bytewax": ("bytewax_flow.py", "at most once, malformed left out"),
}
# Programs for other libraries are of no use to somebody who lands events: they are in a clone, and not in the wheel.
SCRIPTS = Path(penstock.__file__).parents[2] / "bench" / "peers"
UV = [*SAFE_PYTHON, "-m", "uv", "--no-config"]  # not the settings of whoever may write to a folder above
_TIMEOUT_S = 1800.0


class PeerEnvironment:
    """A Python with the packages that a file of `bench/peers` locks, made once and kept in the cache."""

    def __init__(self, cache: Path, requirements: str, base_python: str, on_progress: Callable[[str], None]) -> None:
        self._requirements = SCRIPTS / requirements
        self._base_python = base_python
        try:
            wanted = self._requirements.read_bytes()
        except FileNotFoundError:
            raise EnvironmentNotReady(
                "the peers are in Penstock's repository and not in an installed package",
                fix="Run it from a clone, or measure without --peers",
            ) from None
        self.python = cache / "peers" / hashlib.sha256(wanted).hexdigest()[:12] / "bin" / "python"
        make_missing_public(self.python.parent.parent.parent)
        self._require_own(self.python.parent.parent.parent)
        if not self.python.exists():
            on_progress("making an environment for the peers")
            self._make()
        self._require_own(self.python.parent)

    def _require_own(self, folder: Path) -> None:
        """Refuse an environment that somebody else could have made, or can change."""
        if (why := distrust_way(folder)) is not None:
            raise EnvironmentNotReady(
                f"the environment of the peers is not to be trusted: {why}",
                safe="Nothing was started",
                fix="Name another folder with PENSTOCK_CACHE, or give it to yourself: chown, chmod go-w",
            )

    def _make(self) -> None:
        environment, wanted = self.python.parent.parent, str(self._requirements)
        for command in (
            [*UV, "venv", "--quiet", "--python", self._base_python, str(environment)],
            [*UV, "pip", "sync", "--quiet", "--python", str(self.python), "--require-hashes", wanted],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False, umask=0o022)
            if done.returncode != 0:
                said = (done.stderr.strip() or "no reason given").splitlines()[-1]
                raise EnvironmentNotReady(f"the peers cannot be installed: {said}", fix="Measure without --peers")


class Peers:
    """The peers of our pipelines, in an environment that they share."""

    def __init__(self, cache: Path, on_progress: Callable[[str], None]) -> None:
        self._python = PeerEnvironment(cache, "requirements.txt", sys.executable, on_progress).python

    def run(self, name: str, connection: Connection, topic: str, total: int, folder: Path) -> float:
        """Let a peer read the whole topic; return the seconds that it took by its own clock, without its start."""
        script = SCRIPTS / CONTENDERS[name][0]
        command = [str(self._python), str(script), connection.bootstrap_servers, topic, str(total), str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode != 0:
            said = (done.stderr.strip() or "no reason given").splitlines()[-1]
            raise EnvironmentNotReady(f"{name} failed: {said}", fix="Measure without --peers")
        return float(done.stdout.split()[-1])

    def check(self, name: str, folder: Path, good: int) -> None:
        """Count what came out: rows of a table, or lines."""
        if (folder / "table").exists():
            found = DeltaTable(str(folder / "table")).count()
        else:
            with (folder / "events.jsonl").open("rb") as lines:
                found = sum(1 for _ in lines)
        if found != good:
            raise RuntimeError(f"{name}: {found} events of {good}")
