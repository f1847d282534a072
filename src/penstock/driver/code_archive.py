"""Sending the user's own modules to a cluster: what lies beside the pipeline file goes to every executor."""

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipeline.spec import PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ship(spark: "SparkSession", spec: PipelineSpec, folder: Path, scratch: Path) -> Path | None:
    """Return the folder in which tasks find the user's modules; None if they were sent along, and lie on the path.

    Penstock itself is not sent: the Python of the executors has it installed, as it has Arrow and the Kafka client.
    """
    if (spark.sparkContext.master or "").startswith("local"):
        return folder
    if any(step.user_code for step in spec.steps):
        scratch.mkdir(parents=True, exist_ok=True)
        archive = scratch / f"{spec.name}-code.zip"
        with zipfile.ZipFile(archive, "w") as packed:
            for path in _modules(folder):
                packed.write(path, path.relative_to(folder))
        spark.sparkContext.addPyFile(str(archive))
    return None


def _modules(folder: Path) -> list[Path]:
    """List the user's modules, and packages with all that is in them."""
    packages = [path.parent for path in folder.glob("*/__init__.py")]
    inside = [path for package in packages for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return sorted([*folder.glob("*.py"), *inside])
