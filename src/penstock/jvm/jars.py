"""The jars of Kafka, of Spark's Kafka connector and of Delta: locked, fetched once, verified at every use.

The JVM opens them after that, so nobody but this user and root may be able to change them, or a folder above them.

Ivy, which PySpark ships, fetches them, so Java and PySpark are all that it takes. The lock file names every
jar with its SHA-256; nothing is resolved when a user runs it. A jar that is missing or damaged is fetched
again; everything else stays offline. Set PENSTOCK_IVY_SETTINGS to an ivysettings.xml to use a mirror.
"""

import fcntl
import functools
import hashlib
import importlib.util
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Literal, cast, get_args
from xml.sax.saxutils import quoteattr

from pydantic import BaseModel, Field

from penstock.errors import EnvironmentNotReady, NotFound
from penstock.jvm.java import find_java
from penstock.private import OWNER_ONLY, distrust, distrust_way, make_missing_public, make_public
from penstock.side_by_side import do_all

JarSet = Literal[
    "kafka-4.3.1", "kafka-3.9.1", "spark-kafka", "delta", "connect", "openlineage", "spark-avro", "registry"
]
KAFKA: JarSet = "kafka-4.3.1"
USED_SETS: tuple[JarSet, ...] = (KAFKA, "spark-kafka", "delta")

_WITHOUT_DESCRIPTIONS = (
    '<ivysettings><settings defaultResolver="public"/>'
    '<resolvers><ibiblio name="public" m2compatible="true" usepoms="false"/></resolvers></ivysettings>'
)

_SIDE_BY_SIDE = 4
_LINES = 4
Progress = Callable[[int, int], None]
"""Called with (steps done, steps in all) while jars arrive; looking a jar up and fetching it are a step each."""


def progress_lines(what: str, say: Callable[[str], None]) -> Progress:
    """Return a callback that says how far the fetching is, at its beginning and then four times: logs keep them."""

    def report(step: int, steps: int) -> None:
        if step == 1 or step * _LINES // steps > (step - 1) * _LINES // steps:
            say(f"fetching {what}: step {step} of {steps}")

    return report


class Jar(BaseModel, frozen=True, extra="forbid"):
    """One file of the lock file: a jar, or an archive of jars."""

    organisation: str = Field(description="Maven group.")
    name: str = Field(description="Maven artifact.")
    revision: str = Field(description="Maven version.")
    classifier: str = Field("", description="Maven classifier; of most there is none.")
    type: Literal["jar", "tar.gz"] = Field("jar", description="A jar, or an archive that is unpacked to be used.")
    sha256: str = Field(description="Checksum of the file that was locked.")
    content_sha256: str = Field("", description="Of an archive: checksum of what is in it, unpacked.")

    @property
    def file_name(self) -> str:
        """Return the name in the cache folder; the group keeps equal artifact names apart."""
        return f"{self.stem}.{self.type}"

    @property
    def stem(self) -> str:
        """Return that name without its ending."""
        return f"{self.organisation}__{self.name}-{self.revision}{f'-{self.classifier}' if self.classifier else ''}"

    def dependency(self) -> str:
        """Write it as Ivy is asked for it: this file, and nothing that it needs."""
        artifact = (
            f"<artifact name={quoteattr(self.name)} type={quoteattr(self.type)} ext={quoteattr(self.type)}"
            f" m:classifier={quoteattr(self.classifier)}/>"
            if self.classifier
            else ""
        )
        return (
            f"<dependency org={quoteattr(self.organisation)} name={quoteattr(self.name)}"
            f' rev={quoteattr(self.revision)} conf="default" transitive="false">{artifact}</dependency>'
        )


@functools.cache
def locked(jar_set: JarSet) -> tuple[Jar, ...]:
    """Return the jars of a set as the lock file has them."""
    text = resources.files("penstock.jvm").joinpath("jars.lock.json").read_text(encoding="utf-8")
    return tuple(Jar.model_validate(entry) for entry in json.loads(text)[jar_set])


def named(name: str) -> JarSet:
    """Return the set of a name; raise `NotFound` if there is none."""
    for jar_set in get_args(JarSet):
        if jar_set == name:
            return cast("JarSet", jar_set)
    raise NotFound(f"there is no set of jars called '{name}'; there are {', '.join(get_args(JarSet))}")


def is_sound(jar: Jar, folder: Path) -> bool:
    """Return whether the jar is in the folder, byte for byte as locked."""
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
        require_own((folder / jar.file_name for jar in jars), folder)
    if not all(is_sound(jar, folder) for jar in jars):
        with one_at_a_time(folder, "fetch"):
            wrong = [jar for jar in jars if not is_sound(jar, folder)]
            if wrong:
                _fetch(jar_set, wrong, folder, progress)
    return [folder / jar.file_name for jar in jars]


@contextmanager
def one_at_a_time(folder: Path, work: str) -> Iterator[None]:
    """Let one process at a time do this work in a cache folder; the others wait, and find what it has done."""
    make_missing_public(folder)
    require_own((), folder)
    # Whoever may open a file may lock it, and keep everybody waiting: nobody else may.
    with os.fdopen(os.open(folder / f".{work}.lock", os.O_WRONLY | os.O_CREAT, OWNER_ONLY), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def require_own(paths: Iterable[Path], folder: Path) -> None:
    """Refuse jars that somebody else could replace between their verification and their use."""
    why = distrust_way(folder)
    for path in paths:
        if why is None and os.path.lexists(path) and (reason := distrust(path)) is not None:
            why = f"{path} {reason}"
    if why is not None:
        raise EnvironmentNotReady(
            f"the jars in {folder} could be replaced by somebody else: {why}",
            safe="Nothing was started",
            fix="Name another folder with PENSTOCK_CACHE, or give it to yourself: chown, chmod go-w",
        )


def _fetch(jar_set: JarSet, jars: list[Jar], folder: Path, progress: Progress) -> None:
    """Fetch into a temporary folder, verify there, then move into place: a crash leaves nothing half done.

    One Ivy asks for one jar after the other and mostly waits for answers, so some of them share the work.
    """
    counting = threading.Lock()
    done = 0
    missing: dict[Jar, str] = {}

    def count(_steps_of_one: int) -> None:
        nonlocal done
        with counting:
            done += 1
            progress(min(done, 2 * len(jars)), 2 * len(jars))

    def fetch(share: list[Jar], scratch: Path) -> None:
        scratch.mkdir()
        complaint = resolve_with_ivy("".join(jar.dependency() for jar in share), scratch, count, alone=True)
        for jar in share:
            if is_sound(jar, scratch):
                make_public(scratch / jar.file_name)  # or the next command would not trust it
                (scratch / jar.file_name).replace(folder / jar.file_name)
            else:
                missing[jar] = complaint

    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder, ignore_cleanup_errors=True) as place:
        shares = [jars[first::_SIDE_BY_SIDE] for first in range(min(_SIDE_BY_SIDE, len(jars)))]
        do_all(partial(fetch, share, Path(place) / str(number)) for number, share in enumerate(shares))
        if missing:
            # A repository that many ask refuses now and then what it has.
            again = list(missing)
            missing.clear()
            fetch(again, Path(place) / "again")
    if missing:
        jar, complaint = next(iter(missing.items()))
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise EnvironmentNotReady(
            f"the jar {jar.name} {jar.revision}{others} could not be fetched ({complaint})",
            safe="What did arrive is kept",
            fix=f"With a network, run: penstock jars fetch --set {jar_set}",
        )


def ivy_jar() -> Path:
    """Find the Ivy that PySpark ships."""
    found = sorted((pyspark_folder() / "jars").glob("ivy-*.jar"))
    if not found:
        raise _without_pyspark()
    return found[0]


def pyspark_folder() -> Path:
    """Find PySpark without importing it, which takes longer than most of what is asked here."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise _without_pyspark()
    return Path(spec.submodule_search_locations[0])


def _without_pyspark() -> EnvironmentNotReady:
    return EnvironmentNotReady("PySpark, which brings Ivy, is not installed", fix="Run: pip install pyspark")


def resolve_with_ivy(
    dependencies_xml: str, folder: Path, progress: Callable[[int], None], *, alone: bool = False
) -> str:
    """Run Ivy over `<dependency>` elements: jars land in `folder` as `Jar.file_name`; return its complaint.

    `alone` says that nothing of what they need is wanted: the descriptions of artifacts, of which those that they build
    upon may be missing, are not asked for.
    """
    java, _ = find_java()
    module = folder / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="penstock" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies_xml}</dependencies></ivy-module>"
    )
    settings = os.environ.get("PENSTOCK_IVY_SETTINGS")
    if alone and not settings:
        (folder / "ivysettings.xml").write_text(_WITHOUT_DESCRIPTIONS)
        settings = str(folder / "ivysettings.xml")
    # A cache of our own: a half-filled ~/.m2 or ~/.ivy2 (a pom without its jar) breaks Ivy.
    # `-types jar bundle`: without it sources and javadoc jars take the jar's name.
    command = [
        str(java),
        "-jar",
        str(ivy_jar()),
        *(["-settings", settings] if settings else []),
        *["-cache", str(folder / "ivy"), "-ivy", str(module), "-confs", "default"],
        *["-types", "jar", "bundle", "tar.gz"],
        *["-retrieve", f"{folder}/[organisation]__[artifact]-[revision](-[classifier]).[ext]"],
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
