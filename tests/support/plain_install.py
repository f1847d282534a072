"""The built wheel in an environment of its own, with the packages that it asks for and no others.

No network is needed: the packages are those of this environment, linked file by file. Which ones is read from the
wheel, and uv says whether any is missing.
"""

import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PathDistribution, distribution
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from penstock import __version__

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class PlainInstall:
    """What `pip install penstock` gives on a machine that has nothing yet."""

    wheel: Path
    bin: Path

    def run(
        self, *command: str | Path, cwd: Path, given: str = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of this environment, with no way to any other; `given` is its standard input."""
        program, *arguments = map(str, command)
        environment = [
            "-u",
            "PYTHONPATH",
            "-u",
            "VIRTUAL_ENV",
            *(f"{name}={value}" for name, value in variables.items()),
        ]
        called = ["/usr/bin/env", *environment, str(self.bin / program), *arguments]
        return subprocess.run(called, input=given, capture_output=True, text=True, cwd=cwd, timeout=480, check=False)


def plain_install(folder: Path) -> PlainInstall:
    """Build the wheel and install it into a new environment in the folder."""
    _run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder))
    (wheel,) = folder.glob("*.whl")
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    (packages,) = environment.glob("lib/python*/site-packages")
    built = PathDistribution(zipfile.Path(wheel, f"penstock-{__version__}.dist-info/"))
    for each in _needed(built).values():
        _link(each, packages)
    uv = [sys.executable, "-m", "uv", "--offline", "--no-config", "pip"]
    _run(*uv, "install", "--quiet", "--no-deps", "--python", str(python), str(wheel))
    _run(*uv, "check", "--python", str(python))
    return PlainInstall(wheel, environment / "bin")


def jar_repository(jars: Path, settings: Path) -> Path:
    """Write settings of Ivy by which a folder of jars is the repository that they are fetched from."""
    settings.write_text(
        '<ivysettings><settings defaultResolver="here"/><resolvers><filesystem name="here">'
        f'<artifact pattern="{jars}/[organisation]__[artifact]-[revision].[ext]"/>'
        "</filesystem></resolvers></ivysettings>"
    )
    return settings


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr


def _needed(wanted: Distribution) -> dict[str, Distribution]:
    """Return every distribution that one asks for, and those ask for, by name."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = list(_requirements(wanted, frozenset()))
    while waiting:
        requirement = waiting.pop()
        name, its_extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, its_extras) not in seen:
            seen.add((name, its_extras))
            found[name] = distribution(requirement.name)
            waiting += _requirements(found[name], its_extras)
    return found


def _requirements(one: Distribution, extras: frozenset[str]) -> Iterator[Requirement]:
    for text in one.requires or []:
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": each}) for each in {"", *extras}):
            yield requirement


def _link(one: Distribution, packages: Path) -> None:
    """Link its files, and what Python has compiled of them; programs beside the packages are left out."""
    for file in one.files or []:
        source = Path(str(file.locate()))
        if ".." in file.parts:
            continue
        compiled = Path(cache_from_source(str(source))) if source.suffix == ".py" else source
        for each in {source, compiled}:
            target = packages / each.relative_to(str(one.locate_file("")))
            if each.exists() and not target.is_symlink():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(each)
