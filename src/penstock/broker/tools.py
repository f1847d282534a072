"""Kafka's own command-line tools, run with its own jars; logins travel in a file that only we read."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.broker.java import find_java
from penstock.broker.java_properties import properties_text
from penstock.broker.node import QUICK_START
from penstock.broker.secrets_folder import write_private
from penstock.errors import Refused
from penstock.kafka.connection import Connection


@contextmanager
def client_properties(connection: Connection) -> Iterator[Path]:
    """Write a Java client's login into a private file that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        path = Path(folder) / "client.properties"
        write_private(path, properties_text(connection.security.java()).encode("ascii"))
        yield path


def run_tool(
    classpath: Sequence[Path],
    main_class: str,
    arguments: Sequence[str],
    *,
    timeout_s: float = 120.0,
    quick: bool = True,
) -> str:
    """Run a tool to its end and give what it printed."""
    java, _ = find_java()
    command = [
        str(java),
        *(QUICK_START if quick else ["-Xmx512m"]),
        "-cp",
        os.pathsep.join(map(str, classpath)),
        main_class,
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode != 0:
        said = [
            line for line in (done.stdout + done.stderr).splitlines() if line.strip() and not line.startswith("\tat ")
        ]
        reason = next(
            (line for line in said if "Exception" in line or "rror" in line),
            said[0] if said else "no reason given",
        )
        raise Refused(f"Kafka's {main_class.rpartition('.')[2]} failed: {reason[:300]}")
    return done.stdout
