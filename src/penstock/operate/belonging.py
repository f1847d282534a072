"""Which file a pipeline's name belongs to, and which home folder: which people mix up when they move or copy files."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml
from pydantic import BaseModel, Field

from penstock.config.settings import HOME_NAME
from penstock.delivery.checkpoint import Checkpoint
from penstock.delivery.durable import read_versioned, write_versioned
from penstock.delivery.lag import pipeline_of
from penstock.driver.paths import PipelinePaths
from penstock.errors import CheckpointLost, Conflict
from penstock.private import distrust
from penstock.record.formats import PIPELINE_FILES

_FILE = "pipeline.json"


class LastRun(BaseModel, frozen=True):
    """What a pipeline was run from last. The file may have been edited since, so what ran is here, too."""

    file: Path = Field(description="The pipeline file.")
    sinks: list[str] = Field(default=[], description="The sinks it ran with; none if it has never been opened.")
    opened_ms: int = Field(0, description="When these were opened, in milliseconds since 1970; 0 if never.")


def write_file(folder: Path, file: Path) -> None:
    """Record which file the pipeline in `folder` is run from; the sinks of the last run are kept."""
    last = LastRun(file=file.resolve())
    with suppress(FileNotFoundError):
        last = last_run(folder).model_copy(update={"file": last.file})
    _write(folder, last)


def write_sinks(folder: Path, file: Path, sinks: list[str]) -> None:
    """Record which sinks the pipeline in `folder` runs with, once they are open."""
    _write(folder, LastRun(file=file.resolve(), sinks=sinks, opened_ms=int(time.time() * 1000)))


def _write(folder: Path, last: LastRun) -> None:
    write_versioned(folder / _FILE, PIPELINE_FILES, last.model_dump(mode="json"))


def last_run(folder: Path) -> LastRun:
    """Return what the pipeline in `folder` was last run from.

    Raise `FileNotFoundError` if it never was, `Conflict` if the record is damaged.
    """
    try:
        return LastRun.model_validate(read_versioned(folder / _FILE, PIPELINE_FILES))
    except ValueError:
        raise Conflict(
            f"{folder / _FILE} is damaged: it does not say which file the pipeline was run from",
            safe="Nothing was read or written; positions are kept elsewhere",
            fix="Remove it, and run the pipeline by its file",
        ) from None


def require_own_name(folder: Path, name: str, file: Path) -> None:
    """Raise `Conflict` if another file that is still there has this name: positions and tables belong to that one."""
    try:
        owner = last_run(folder).file
    except FileNotFoundError:
        return
    if owner != file.resolve() and _is_called(owner, name):
        raise Conflict(
            f"the name '{name}' belongs to the pipeline in {owner}, and {file.resolve()} has it too",
            safe="Nothing was read or written",
            fix="Give one of them another `name`; if this file takes over, move the other one away",
        )


def _is_called(file: Path, name: str) -> bool:
    """Return whether the file still defines a pipeline of this name; for a Python file, whether it exists."""
    if file.suffix == ".py":
        return file.is_file()
    try:
        document = yaml.safe_load(file.read_bytes())
    except (OSError, ValueError, yaml.YAMLError):
        return False
    return isinstance(document, dict) and document.get("name") == name


def require_no_pipeline(home: Path, group: str) -> None:
    """Refuse to forget a group that holds positions of a pipeline that has run here."""
    pipeline = pipeline_of(group)
    if pipeline and PipelinePaths.of(home, pipeline).folder.exists():
        raise Conflict(
            f"group '{group}' holds positions of pipeline '{pipeline}'",
            safe="Nothing was changed",
            fix="Delete the pipeline's folder in .penstock/pipelines first, if it is to be forgotten",
        )


@contextmanager
def other_home_named(name: str, file: Path, home: Path) -> Iterator[None]:
    """Where a checkpoint seems lost because the pipeline ran from another home folder, say so instead."""
    try:
        yield
    except CheckpointLost as lost:
        above = [file.resolve().parent, *file.resolve().parent.parents]
        homes = [folder / HOME_NAME for folder in above if folder / HOME_NAME != home]
        found = next((each for each in homes if distrust(each) is None and _has_checkpoint(each, name)), None)
        if found is None or _has_checkpoint(home, name):
            raise
        raise CheckpointLost(
            f"pipeline '{name}' ran from the home folder {found}, and this is {home}",
            safe=lost.safe,
            fix=f"Run it there: penstock --home {found} pipeline run {file}",
        ) from None


def _has_checkpoint(home: Path, name: str) -> bool:
    with suppress(OSError, Conflict):
        return Checkpoint(PipelinePaths.of(home, name).checkpoint, name).exists
    return False
