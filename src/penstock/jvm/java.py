"""Finding the Java that runs Kafka and Spark."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from penstock.errors import EnvironmentNotReady

OLDEST_JAVA = 17
_FOR_JAVA = {"HOME", "LANG", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"}
_FIX = "Install it, on Debian or Ubuntu with: apt-get install openjdk-17-jre-headless; or set JAVA_HOME"


def find_java() -> tuple[Path, int]:
    """Return the Java program and its major version; raise `EnvironmentNotReady` if there is none new enough."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise EnvironmentNotReady(f"there is no Java {where}, and Kafka needs {OLDEST_JAVA} or newer", fix=_FIX)
    version = _major_version(found)
    if version < OLDEST_JAVA:
        raise EnvironmentNotReady(f"{found} is Java {version}, and Kafka needs {OLDEST_JAVA} or newer", fix=_FIX)
    return Path(found), version


def java_environment() -> dict[str, str]:
    """Return the variables that a JVM may need; what else a shell holds, passwords among it, stays out."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _FOR_JAVA or name.startswith(("LC_", "JAVA_", "JDK_"))
    }


def _major_version(java: str) -> int:
    try:
        asked = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False, env=java_environment()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentNotReady(f"{java} does not run: {error}", fix=_FIX) from None
    match = re.search(r'version "(?:1\.)?(\d+)', asked.stderr + asked.stdout)
    if match is None:
        raise EnvironmentNotReady(f"{java} does not say its version", fix=_FIX)
    return int(match[1])
