"""Sending the user's own modules to a cluster: what lies beside the pipeline file goes to every executor."""

import sys
import sysconfig
import zipfile
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from penstock.pipeline.spec import PipelineSpec
from penstock.steps.handlers import Handlers
from penstock.steps.python import Python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ship(spark: "SparkSession", spec: PipelineSpec, folder: Path, scratch: Path) -> Path | None:
    """Return the folder in which tasks find the user's modules; None if they were sent along, and lie on the path.

    Penstock itself is not sent: the Python of the executors has it installed, as it has Arrow and the Kafka client.
    """
    if (spark.sparkContext.master or "").startswith("local"):
        return folder
    if any(isinstance(step, Python | Handlers) for step in spec.steps):
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


def own_modules() -> list[ModuleType]:
    """Return the modules in memory that neither Python nor an installed package has brought: the user's own."""
    library = Path(sysconfig.get_path("stdlib"))
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is None or name.partition(".")[0] in {"__main__", "penstock"}:
            continue
        path = Path(file)
        if not path.is_relative_to(library) and not {"site-packages", "dist-packages"} & set(path.parts):
            found.append(module)
    return found
