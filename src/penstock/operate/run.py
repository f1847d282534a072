"""`penstock.run`: a pipeline from a Python program, and the account of what it did."""

import time
from pathlib import Path
from threading import Event
from typing import Literal

from pydantic import BaseModel, Field

from penstock.config import settings
from penstock.operate import driver
from penstock.pipeline.load import load_with_warnings


class Account(BaseModel, frozen=True):
    """What one run of a pipeline did. For each sink: events = rows written + its dead letters + what was dropped."""

    pipeline: str = Field(description="The pipeline's name.")
    state: Literal["finished", "stopped"] = Field(description="Whether it had caught up, or was stopped.")
    events: int = Field(description="Events read.")
    rows: dict[str, int] = Field(description="Rows written, by sink.")
    dead_letters: int = Field(description="Dead letters written.")
    batches: int = Field(description="Batches committed.")
    seconds: float = Field(description="How long the run took, with the start of Spark if it was needed.")


def run(
    file: str | Path,
    *,
    once: bool = False,
    master: str = driver.MASTER,
    stopping: Event | None = None,
    project: str | Path | None = None,
    home: str | Path | None = None,
    bootstrap: str | None = None,
    user: str | None = None,
) -> Account:
    """Run a pipeline in this process, and return what it did; every failure is one of `penstock.errors`.

    With `speed: scheduled`, or `once`, it returns when the pipeline has caught up, otherwise when it is stopped: by
    Ctrl-C or SIGTERM if this is the main thread, or by setting `stopping`, from any other. The current batch is
    finished. It promises what `penstock pipeline run` promises, even if this process is killed: the next run continues
    there.

    `project`, `home`, `bootstrap` and `user` are the command line's options of these names. One process has one Spark,
    which the first run that needs it starts and the end of the process stops.
    """
    began, path = time.monotonic(), Path(file)
    found = settings.load(project_file=project, home=home, bootstrap=bootstrap, user=user)
    status = driver.run(
        load_with_warnings(path, once=once)[0], found, path, show=lambda _: None, master=master, stopping=stopping
    )
    return Account(
        pipeline=status.pipeline,
        state="finished" if status.state == "finished" else "stopped",
        events=status.events,
        rows={name: totals.written for name, totals in status.sinks.items()},
        dead_letters=status.dead,
        batches=status.batches,
        seconds=round(time.monotonic() - began, 3),
    )
