"""Finding the Java that runs Kafka and Spark."""

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from penstock.errors import EnvironmentNotReady

OLDEST_JAVA = 17
_FOR_JAVA = {"HOME", "LANG", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"}
_PACKAGES = {
    "apt-get": ("apt-get install", ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "openjdk-25-jre-headless")),
    "dnf": ("dnf install", ("java-21-openjdk-headless",)),
    "apk": ("apk add", ("openjdk17-jre-headless",)),
    "pacman": ("pacman -S", ("jre21-openjdk-headless",)),
}


def find_java() -> tuple[Path, int]:
    """Return the Java program and its major version; raise `EnvironmentNotReady` if there is none new enough."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise EnvironmentNotReady(f"there is no Java {where}, and Kafka needs {OLDEST_JAVA} or newer", fix=_fix())
    version = _major_version(found, Path(found).stat().st_mtime_ns)
    if version < OLDEST_JAVA:
        raise EnvironmentNotReady(f"{found} is Java {version}, and Kafka needs {OLDEST_JAVA} or newer", fix=_fix())
    return Path(found), version


def install_command() -> str | None:
    """Return the line that installs Java on this machine; None if its package manager is not known."""
    if sys.platform == "darwin":
        return "brew install openjdk@21"
    for program, (command, packages) in _PACKAGES.items():
        if shutil.which(program):
            known = _known_to_apt() if program == "apt-get" else set()
            package = next((each for each in packages if each in known), packages[0])
            return f"{'' if os.geteuid() == 0 else 'sudo '}{command} {package}"
    return None


def _known_to_apt() -> set[str]:
    """Return the packages of Java that this release of Debian or Ubuntu has: not all of them have the same."""
    try:
        asked = subprocess.run(
            [shutil.which("apt-cache") or "", "pkgnames", "openjdk-"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return set()
    return set(asked.stdout.split())


def _fix() -> str:
    command = install_command()
    return f"Install it{f', with: {command}' if command else ''}; or set JAVA_HOME to one that is there"


def java_environment() -> dict[str, str]:
    """Return the variables that a JVM may need; what else a shell holds, passwords among it, stays out."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _FOR_JAVA or name.startswith(("LC_", "JAVA_", "JDK_"))
    }


@functools.cache
def _major_version(java: str, _written_ns: int) -> int:
    """Ask a Java for its version, once for each one there: each answer takes the start of a JVM."""
    try:
        asked = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False, env=java_environment()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentNotReady(f"{java} does not run: {error}", fix=_fix()) from None
    match = re.search(r'version "(?:1\.)?(\d+)', asked.stderr + asked.stdout)
    if match is None:
        raise EnvironmentNotReady(f"{java} does not say its version", fix=_fix())
    return int(match[1])
