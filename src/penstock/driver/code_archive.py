"""Sending the user's own modules to a cluster: modules beside the pipeline file go to every executor."""

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from penstock.pipeline.spec import PipelineSpec
from penstock.steps.step import ShippedCode
from penstock.steps.user_modules import module_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ship(spark: "SparkSession", spec: PipelineSpec, folder: Path, scratch: Path) -> Path | ShippedCode:
    """Return where tasks find the user's modules: here, if they run here, or in an archive that is sent to them.

    Penstock itself is not sent: the Python of the executors has it installed, like Arrow and the Kafka client.
    """
    if (spark.sparkContext.master or "").startswith("local") or not any(step.user_code for step in spec.steps):
        return folder
    scratch.mkdir(parents=True, exist_ok=True)
    # Spark never replaces a file that it has sent, and one of its sessions may serve several pipelines.
    archive = scratch / f"code-{uuid4().hex}.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in _modules(folder):
            packed.write(path, path.relative_to(folder))
    # Not as Python files, which would lie on the path of every other pipeline's tasks, too.
    spark.sparkContext.addFile(str(archive))
    return ShippedCode(archive.name)


def _modules(folder: Path) -> list[Path]:
    """List the user's modules, and packages with all their files."""
    packages = [folder / name for name in module_names(folder) if (folder / name).is_dir()]
    inside = [path for package in packages for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return sorted([*folder.glob("*.py"), *inside])
