"""Kafka's own command-line tools, run with its own jars; logins are passed in a file that only this user can read."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.broker.node import quick_start
from penstock.errors import Refused
from penstock.jvm.java import find_java, java_environment
from penstock.jvm.java_properties import properties_text
from penstock.kafka.connection import Connection


@contextmanager
def client_properties(connection: Connection) -> Iterator[Path]:
    """Return the path of a Java client's login for `run_tool`: a file in memory, so a kill leaves nothing on a disk."""
    with os.fdopen(os.memfd_create("penstock-login"), "wb") as file:
        file.write(properties_text(connection.security.java()).encode("ascii"))
        file.flush()
        yield Path(f"/dev/fd/{file.fileno()}")


def run_tool(
    classpath: Sequence[Path],
    main_class: str,
    arguments: Sequence[str],
    *,
    timeout_s: float = 120.0,
    quick: bool = True,
    login: Path | None = None,
) -> str:
    """Run a tool and return what it printed; `login` is a path among its arguments."""
    java, _ = find_java()
    command = [
        str(java),
        *(quick_start(java, classpath) if quick else ["-Xmx512m"]),
        "-cp",
        os.pathsep.join(map(str, classpath)),
        main_class,
        *arguments,
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env=java_environment(),
        pass_fds=[int(login.name)] if login else [],
    )
    if done.returncode != 0:
        said = [
            line for line in (done.stdout + done.stderr).splitlines() if line.strip() and not line.startswith("\tat ")
        ]
        # Some tools repeat their arguments as an error first; the exception behind that is the reason.
        telling = [line for word in ("Exception", "rror") for line in said if word in line]
        reason = next(iter([*telling, *said]), "no reason given")
        raise Refused(f"Kafka's {main_class.rpartition('.')[2]} failed: {reason[:300]}")
    return done.stdout
