"""Spark's classes, parsed once: every start of a driver from then on takes a few seconds less.

The JVM writes such an archive when it ends, which takes longer than one start saves; so it is made on request only. It
holds for one Java and one PySpark. The JVM checks that itself, and does without an archive that does not fit. It does
not check who wrote it, and runs what it finds there: an archive that somebody else could have written is not used.
"""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock.config.settings import cache_folder
from penstock.errors import EnvironmentNotReady
from penstock.interpreter import SAFE_PYTHON
from penstock.jvm.java import find_java
from penstock.private import distrust_way, make_missing_public, make_private

_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
_TIMEOUT_S = 300


def archive(java: Path) -> Path:
    """Name the archive of a Java and this PySpark."""
    import pyspark

    java = java.resolve()
    known_by = f"{java} {java.stat().st_mtime_ns} {Path(pyspark.__file__).parent} {pyspark.__version__}"
    return cache_folder() / "classes" / f"spark-{hashlib.sha256(known_by.encode()).hexdigest()[:16]}.jsa"


def options(java: Path) -> str:
    """Return the options by which a JVM uses the archive; none if there is none."""
    path = archive(java)
    return f"-XX:SharedArchiveFile={path} {_QUIET}" if is_own(path) else ""


def is_own(path: Path) -> bool:
    """Return whether a file and every folder on the way to it are this user's or root's, and nobody else's to write."""
    return path.is_file() and not path.is_symlink() and distrust_way(path) is None


def make() -> Path:
    """Make the archive anew: start Spark, let it do a bit of everything, and keep what it loaded."""
    path = archive(find_java()[0])
    make_missing_public(path.parent.parent)
    make_private(path.parent)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        done = subprocess.run(
            [*SAFE_PYTHON, "-m", __name__, str(made)], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        if done.returncode != 0 or not made.exists():
            said = (done.stderr.strip() or "no reason given").splitlines()[-1]
            raise EnvironmentNotReady(f"Spark's classes could not be archived: {said}", safe="Everything works without")
        made.chmod(0o600)
        made.replace(path)
    return path


def _train(path: Path) -> None:
    from penstock.driver import session

    making = f"-XX:ArchiveClassesAtExit={path} {_QUIET}"
    spark = session.start("archive", path.parent, master="local[1]", java_options=making)
    events = spark.range(0, 10).selectExpr("id", "named_struct('name', cast(id AS string)) AS person", "id > 5 AS big")
    events.filter("big").mapInArrow(lambda batches: batches, events.schema).collect()


if __name__ == "__main__":
    _train(Path(sys.argv[1]))
