"""The jars of Kafka, of Spark's Kafka connector and of Delta: locked, fetched once, verified at every use.

The JVM opens them after that, so nobody but this user and root may be able to change them, or a folder above them.

Ivy, which PySpark ships, fetches them, so Java and PySpark are all that it takes. The lock file names every
jar with its SHA-256; nothing is resolved when a user runs it. A jar that is missing or damaged is fetched
again; everything else stays offline. Set PENSTOCK_IVY_SETTINGS to an ivysettings.xml to use a mirror.
"""

import functools
import hashlib
import importlib.util
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from importlib import resources
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import quoteattr

from pydantic import BaseModel, Field

from penstock.errors import EnvironmentNotReady
from penstock.jvm.java import find_java
from penstock.private import distrust, distrust_way, make_missing_public

JarSet = Literal["kafka-4.3.1", "kafka-3.9.1", "spark-kafka", "delta"]
KAFKA: JarSet = "kafka-4.3.1"
USED_SETS: tuple[JarSet, ...] = (KAFKA, "spark-kafka", "delta")

Progress = Callable[[int, int], None]
"""Called with (steps done, steps in all) while jars arrive; looking a jar up and fetching it are a step each."""


class Jar(BaseModel, frozen=True, extra="forbid"):
    """One jar of the lock file."""

    organisation: str = Field(description="Maven group.")
    name: str = Field(description="Maven artifact.")
    revision: str = Field(description="Maven version.")
    sha256: str = Field(description="Checksum of the jar that was locked.")

    @property
    def file_name(self) -> str:
        """Return the name in the cache folder; the group keeps equal artifact names apart."""
        return f"{self.organisation}__{self.name}-{self.revision}.jar"


@functools.cache
def locked(jar_set: JarSet) -> tuple[Jar, ...]:
    """Return the jars of a set as the lock file has them."""
    text = resources.files("penstock.jvm").joinpath("jars.lock.json").read_text(encoding="utf-8")
    return tuple(Jar.model_validate(entry) for entry in json.loads(text)[jar_set])


def is_sound(jar: Jar, folder: Path) -> bool:
    """Say whether the jar is in the folder, byte for byte as locked."""
    try:
        with (folder / jar.file_name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256
    except OSError:
        return False


def ensure(jar_set: JarSet, folder: Path, progress: Progress = lambda _there, _wanted: None) -> list[Path]:
    """Return the paths of the whole set, each verified; fetch what is missing or damaged.

    Raises `EnvironmentNotReady` when a jar cannot be had, or is in a stranger's hands; jars that did arrive are kept
    for the next try.
    """
    jars = locked(jar_set)
    if folder.exists():
        _require_own(jars, folder)
    wrong = [jar for jar in jars if not is_sound(jar, folder)]
    if wrong:
        _fetch(wrong, folder, progress)
    return [folder / jar.file_name for jar in jars]


def _require_own(jars: Iterable[Jar], folder: Path) -> None:
    """Refuse jars that somebody else could replace between their verification and their use."""
    why = distrust_way(folder)
    for path in (folder / jar.file_name for jar in jars):
        if why is None and os.path.lexists(path) and (reason := distrust(path)) is not None:
            why = f"{path} {reason}"
    if why is not None:
        raise EnvironmentNotReady(
            f"the jars in {folder} could be replaced by somebody else: {why}",
            safe="Nothing was started",
            fix="Name another folder with PENSTOCK_CACHE, or give it to yourself: chown, chmod go-w",
        )


def _fetch(jars: list[Jar], folder: Path, progress: Progress) -> None:
    """Fetch into a temporary folder, verify there, then move into place: a crash leaves nothing half done."""
    make_missing_public(folder)
    _require_own((), folder)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder) as place:
        aside = Path(place)
        wanted = "".join(
            f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)}"
            f' rev={quoteattr(jar.revision)} conf="default" transitive="false"/>'
            for jar in jars
        )
        complaint = resolve_with_ivy(wanted, aside, lambda steps: progress(steps, 2 * len(jars)))
        for jar in jars:
            if is_sound(jar, aside):
                (aside / jar.file_name).replace(folder / jar.file_name)
    missing = [jar for jar in jars if not is_sound(jar, folder)]
    if missing:
        named = f"{missing[0].name} {missing[0].revision}"
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise EnvironmentNotReady(
            f"the jar {named}{others} could not be fetched ({complaint})",
            safe="What did arrive is kept",
            fix="With a network, run: penstock jars fetch",
        )


def ivy_jar() -> Path:
    """Find the Ivy that PySpark ships, without importing PySpark."""
    spec = importlib.util.find_spec("pyspark")
    roots = spec.submodule_search_locations if spec else None
    found = sorted(Path(roots[0], "jars").glob("ivy-*.jar")) if roots else []
    if not found:
        raise EnvironmentNotReady("PySpark, which brings Ivy, is not installed", fix="Run: pip install pyspark")
    return found[0]


def resolve_with_ivy(dependencies_xml: str, folder: Path, progress: Callable[[int], None]) -> str:
    """Run Ivy over `<dependency>` elements: jars land in `folder` as `Jar.file_name`; give its complaint."""
    java, _ = find_java()
    module = folder / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="penstock" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies_xml}</dependencies></ivy-module>"
    )
    settings = os.environ.get("PENSTOCK_IVY_SETTINGS")
    # A cache of our own: a half-filled ~/.m2 or ~/.ivy2 (a pom without its jar) breaks Ivy.
    # `-types jar bundle`: without it sources and javadoc jars take the jar's name.
    command = [
        str(java),
        "-jar",
        str(ivy_jar()),
        *(["-settings", settings] if settings else []),
        *["-cache", str(folder / "ivy"), "-ivy", str(module), "-confs", "default", "-types", "jar", "bundle"],
        *["-retrieve", f"{folder}/[organisation]__[artifact]-[revision].[ext]"],
    ]
    steps = 0
    complaint = "Ivy gave no reason"
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    assert process.stdout is not None  # noqa: S101 - PIPE was asked for
    with process:
        for line in process.stdout:
            # Half of the time goes into looking each jar up, so that counts as half of the way.
            if line.startswith("\tfound ") or "[SUCCESSFUL ]" in line:
                steps += 1
                progress(steps)
            elif "not found" in line.lower() and "host" in line.lower():
                complaint = "the package repository cannot be reached"
            elif "not found" in line and complaint.startswith("Ivy"):
                complaint = "the repository does not have it"
    return complaint
