"""`penstock gateway` as users have it, for one measurement: in a process of its own, ended by its id."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import DeliveryFailed
from penstock.interpreter import SAFE_PYTHON
from penstock.kafka.connection import Connection
from penstock.lineage.gateway.options import LINEAGE_TOPIC


@contextmanager
def gateway(connection: Connection, folder: Path, topic: str = LINEAGE_TOPIC) -> Iterator[tuple[str, int]]:
    """Return the address and the process id of a gateway on a free loopback port."""
    command = [*SAFE_PYTHON, "-m", "penstock", "--bootstrap", connection.bootstrap_servers, "gateway"]
    command += ["--port", "0", "--topic", topic]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None  # noqa: S101 - PIPE was asked for
    with process:
        try:
            line = process.stderr.readline()
            if "taking events at " not in line:
                raise DeliveryFailed(f"the gateway did not start: {line.strip()}")
            yield line.split("taking events at ")[1].split()[0], process.pid
        finally:
            process.terminate()
            process.stderr.read()
