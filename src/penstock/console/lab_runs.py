"""Scenarios and drills that were started here: one at a time, each in a process and a folder of its own.

The process is the command that a person would type, in a home folder of its own with a project file of its own, so
whatever it starts, breaks and kills is its own cluster and never the project's. It goes on when the console ends, and
the next console finds it again. What it said and how it ended are in its folder, for the newest twenty.
"""

import os
import secrets
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import psutil
from pydantic import BaseModel, Field

from penstock.clock import clock
from penstock.config.project import FILE_NAME
from penstock.config.settings import Settings
from penstock.console.lab_catalog import Catalog, Kind
from penstock.console.lab_verdict import Verdict, read_verdict, why_failed
from penstock.delivery.durable import locked, write_bytes
from penstock.driver.log_files import last_lines
from penstock.errors import BadInput, Conflict, NotFound
from penstock.interpreter import SAFE_PYTHON
from penstock.private import make_missing_private, write_private

_MOST_KEPT = 20
_STOP_S = 60.0
_END_S = 10.0
_SAME_S = 5.0
_RUN, _SAID, _OUTCOME, _STOPPED, _PLACE = "run.json", "said.log", "outcome.json", "stopped", "place"
_SCALE = "scale.json"

State = Literal["running", "right", "wrong", "failed", "stopped"]


class RunRequest(BaseModel, frozen=True, extra="forbid"):
    """What to start. What is left out is as the scenario has it; a drill takes no options."""

    kind: Kind = Field(description="scenario or drill.")
    name: str = Field(max_length=64, description="Its name.")
    players: int | None = Field(None, ge=2, le=100_000, description="Users who play.")
    games: int | None = Field(None, ge=1, le=1_000_000, description="Games.")
    workers: int | None = Field(None, ge=1, le=4, description="How many land at once.")
    sink: Literal["delta", "json", "kafka", "postgres"] | None = Field(None, description="Where events land.")
    events: int | None = Field(None, ge=200, le=150_000, description="midnight: lineage events of the day.")
    store: Literal["sqlite", "postgres"] | None = Field(None, description="midnight: where lineage is kept.")
    seed: int | None = Field(None, description="Decides everything about the games, or the day.")

    def options(self) -> dict[str, Any]:
        """Return what was chosen."""
        return self.model_dump(exclude={"kind", "name"}, exclude_none=True)


class RunScale(BaseModel, frozen=True, extra="forbid"):
    """How many there should be from now on; what is left out stays as it was wanted last."""

    players: int | None = Field(None, ge=2, le=1_000, description="Users who play.")
    workers: int | None = Field(None, ge=1, le=4, description="How many land at once.")


class _Started(BaseModel, frozen=True):
    """What is on the disk about a run."""

    request: RunRequest
    at: float
    pid: int
    began: float
    """When the process began: another one may get its number."""


class Run(BaseModel, frozen=True):
    """One scenario or drill that was started here."""

    run_id: str = Field(description="Its id.")
    kind: Kind = Field(description="scenario or drill.")
    name: str = Field(description="Its name.")
    options: dict[str, Any] = Field(description="What was chosen.")
    state: State = Field(
        description="running; right or wrong by its own verdict; stopped by hand; failed if it came to no verdict."
    )
    started: float = Field(description="When it was started, in seconds since 1970.")
    ended: float | None = Field(description="When it was last heard of, once it has ended.")
    now: str = Field(description="What it said last.")
    by_hand: list[str] = Field(description="What can be scaled now; nothing once it is over.")
    scale: RunScale = Field(description="What was last wanted by hand.")
    reason: str = Field("", description="Why it failed.")


class LabRuns:
    """The runs of one home folder."""

    def __init__(self, settings: Settings, catalog: Catalog) -> None:
        self._settings = settings
        self._catalog = catalog
        self._lock = threading.Lock()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def _folder(self) -> Path:
        return self._settings.home / "console" / "lab"

    def newest(self) -> list[Run]:
        """Return the runs, the newest first."""
        return [self.get(each.name) for each in self._kept()]

    def get(self, run_id: str) -> Run:
        """Return one run."""
        folder, started = self._known(run_id)
        lines = last_lines(folder / _SAID, 1)
        is_running = self._process(run_id, started) is not None
        state: State = "running" if is_running else _state(folder)
        return Run(
            run_id=run_id,
            kind=started.request.kind,
            name=started.request.name,
            options=started.request.options(),
            state=state,
            started=started.at,
            ended=None if is_running else max((folder / each).stat().st_mtime for each in (_SAID, _OUTCOME)),
            now=lines[0] if lines and is_running else "",
            by_hand=self._catalog.find(started.request.kind, started.request.name).by_hand if is_running else [],
            scale=_scale_in(self.place(run_id)),
            reason=why_failed(folder / _SAID) if state == "failed" else "",
        )

    def said(self, run_id: str, lines: int) -> list[str]:
        """Return the last lines of what a run has said."""
        return last_lines(self._known(run_id)[0] / _SAID, lines)

    def verdict(self, run_id: str) -> Verdict | None:
        """Return how a run ended; None if it came to no verdict, or not yet."""
        return read_verdict(self._known(run_id)[0] / _OUTCOME)

    def place(self, run_id: str) -> Path | None:
        """Return the folder that a run works in, with its cluster; None if there is none yet or any more."""
        folder = self._known(run_id)[0] / _PLACE
        return next((each for each in folder.glob("*-*") if each.is_dir()), None)

    def start(self, request: RunRequest) -> Run:
        """Start a run; raise `Conflict` while another one goes on."""
        offer = self._catalog.find(request.kind, request.name)
        if foreign := [name for name in request.options() if name not in offer.options]:
            raise BadInput(f"{foreign[0]} is not for the {request.kind} '{request.name}'", safe="Nothing was started")
        with self._alone():
            for each in self.newest():
                if each.state == "running":
                    raise Conflict(
                        f"{each.kind} '{each.name}' is running, and one runs at a time",
                        safe="Nothing was started",
                        fix="Wait for its end, or stop it",
                    )
            self._tidy()
            run_id = f"{clock().now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
            self._begin(run_id, request)
        return self.get(run_id)

    def stop(self, run_id: str) -> Run:
        """End a run and all that it has started, after a minute by force; one that has ended stays as it is."""
        folder, started = self._known(run_id)
        process = self._process(run_id, started)
        if process is not None:
            (folder / _STOPPED).touch()
            with suppress(psutil.NoSuchProcess):
                process.terminate()  # it takes that as Ctrl+C, and stops its servers
            with suppress(psutil.TimeoutExpired):
                process.wait(_STOP_S)
            self._clear(folder)
        return self.get(run_id)

    def scale(self, run_id: str, wanted: RunScale) -> Run:
        """Set how many players and workers a run should have; it looks by itself, and says so in its output."""
        folder = self._known(run_id)[0]
        run, place = self.get(run_id), self.place(run_id)
        chosen = wanted.model_dump(exclude_none=True)
        if not chosen:
            raise BadInput("say how many: players, workers", safe="Nothing was changed")
        if foreign := [name for name in chosen if name not in run.by_hand]:
            refusal = "is over" if run.state != "running" else f"does not let {foreign[0]} be scaled"
            raise Conflict(f"{run.kind} '{run.name}' {refusal}", safe="Nothing was changed")
        if place is None:
            raise Conflict(f"{run.kind} '{run.name}' is still starting", safe="Nothing was changed")
        with self._lock:
            write_private(place / _SCALE, _scale_in(place).model_copy(update=chosen).model_dump_json().encode())
        return self.get(folder.name)

    def _begin(self, run_id: str, request: RunRequest) -> None:
        folder = self._folder / run_id
        place = folder / _PLACE
        make_missing_private(place)
        # The project's own file names the project's own cluster: the nearest one must be another.
        write_private(place / FILE_NAME, b"cluster: {type: local}\n")
        options = [f"--{name}={value}" for name, value in request.options().items()]
        command = [*SAFE_PYTHON, "-m", "penstock", "--home", str(place), request.kind, request.name, *options, "--json"]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        with (folder / _SAID).open("wb") as said, (folder / _OUTCOME).open("wb") as outcome:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=outcome,
                stderr=said,
                cwd=place,
                start_new_session=True,
                env={**kept, "PENSTOCK_CACHE": str(self._settings.cache.absolute())},
            )
        self._processes[run_id] = process
        began = psutil.Process(process.pid).create_time()  # it is there, for nobody has waited for it yet
        started = _Started(request=request, at=clock().now().timestamp(), pid=process.pid, began=began)
        write_bytes(folder / _RUN, started.model_dump_json().encode())

    def _known(self, run_id: str) -> tuple[Path, _Started]:
        folder = self._folder / run_id
        try:
            return folder, _Started.model_validate_json((folder / _RUN).read_bytes())
        except (OSError, ValueError):
            raise NotFound(f"there is no run '{run_id}'", fix="List them with: GET /lab/runs") from None

    def _kept(self) -> list[Path]:
        """Return the folders of runs, the newest first: their names begin with the time."""
        return sorted((each.parent for each in self._folder.glob(f"*/{_RUN}")), reverse=True)

    def _process(self, run_id: str, started: _Started) -> psutil.Process | None:
        """Return the process of a run that goes on, also of one that a console before this one has started."""
        if (own := self._processes.get(run_id)) is not None and own.poll() is not None:
            return None
        try:
            found = psutil.Process(started.pid)
            # Seconds since the boot, which is a little later or earlier whenever the clock is set.
            is_it = abs(found.create_time() - started.began) < _SAME_S and found.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return None
        return found if is_it else None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep others from starting a run meanwhile: those of this process, and those of another console."""
        make_missing_private(self._folder)
        with self._lock, locked(self._folder / "lock"):
            yield

    def _tidy(self) -> None:
        """Clear up behind runs that were killed, and forget the oldest; none goes on."""
        kept = self._kept()[: _MOST_KEPT - 1]
        for folder in (each for each in self._folder.iterdir() if each.is_dir()):
            if (folder / _PLACE).exists():
                self._clear(folder)
            if folder not in kept:
                self._processes.pop(folder.name, None)
                shutil.rmtree(folder, ignore_errors=True)

    def _clear(self, folder: Path) -> None:
        """End what is left of a run by force, and remove what it worked in."""
        _end_all_in(folder / _PLACE)
        shutil.rmtree(folder / _PLACE, ignore_errors=True)


def _scale_in(place: Path | None) -> RunScale:
    try:
        return RunScale.model_validate_json((place / _SCALE).read_bytes()) if place else RunScale()
    except FileNotFoundError:
        return RunScale()


def _state(folder: Path) -> State:
    """Return how a run that is over has ended."""
    found = read_verdict(folder / _OUTCOME)
    if found is not None:
        return "right" if found.is_right else "wrong"
    return "stopped" if (folder / _STOPPED).exists() else "failed"


def _end_all_in(folder: Path) -> None:
    """Kill processes of this user that work in a folder or were started with files of it."""
    inside = f"{folder}{os.sep}"
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = [*process.cmdline(), f"{process.cwd()}{os.sep}"]
            if process.uids().real == os.getuid() and any(inside in each for each in words):
                process.kill()
                found.append(process)
    psutil.wait_procs(found, timeout=_END_S)
