"""What the pipelines that have run here read and write, as their files say now."""

from collections.abc import Iterator
from contextlib import suppress

from penstock.config import document
from penstock.config.settings import Settings
from penstock.driver.paths import pipeline_folders
from penstock.errors import PenstockError
from penstock.operate.belonging import last_run
from penstock.pipeline.spec import PipelineSpec


def known_specs(settings: Settings) -> Iterator[PipelineSpec]:
    """Return the pipelines by name. Python files are not run, and files that cannot be read are left out."""
    for folder in pipeline_folders(settings.home):
        with suppress(OSError, PenstockError):
            file = last_run(folder).file
            if file.suffix != ".py":
                yield document.load(file, PipelineSpec)
