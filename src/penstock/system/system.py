"""All parts of a project beside Kafka: planned first, brought up in order, taken down the other way round."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from penstock.config.service_names import SERVICE_NAMES
from penstock.config.services import Services
from penstock.config.settings import Settings
from penstock.errors import Conflict, NotFound, PenstockError
from penstock.services.control import LocalServices
from penstock.side_by_side import do_all
from penstock.system import order, record
from penstock.system.part import Part, Step
from penstock.system.parts import Parts
from penstock.system.pipeline_part import PipelinePart

OnProgress = Callable[[str], None]
_KAFKA = "kafka"
"""What commands call the cluster; it is no part, and stands beside them."""


class Outcome(BaseModel):
    """How the parts have come up."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    ready: list[str] = Field(default_factory=list, description="Parts that have handled a real request.")
    failed: dict[str, PenstockError] = Field(default_factory=dict, description="Why others are not.")


class System:
    """The parts of one project. Nothing here starts or stops Kafka: it has to run before parts do."""

    def __init__(
        self,
        settings: Settings,
        root: Iterable[str],
        wanted: Services,
        services: Callable[[], LocalServices],
        on_progress: OnProgress = lambda _line: None,
    ) -> None:
        self._settings = settings
        self._on_progress = on_progress
        self._make = Parts(settings, tuple(root), services, on_progress)
        self.parts: dict[str, Part] = self._make.wanted(wanted)

    @property
    def _home(self) -> Path:
        return self._settings.home

    def plan(self, names: Iterable[str] | None = None) -> list[Step]:
        """Compare what is wanted with what runs, in the order of work; of all parts if none are named.

        A part that runs with other settings than the file has now is restarted; one that is not in the file any more is
        stopped, unless names were given. Files of pipelines are read first: a mistake in one changes nothing.
        """
        known = record.load(self._home)
        chosen = order.in_order(
            {name: part.needs for name, part in self.parts.items()}, names, (_KAFKA, *SERVICE_NAMES)
        )
        gone = [] if names is not None else self._leftovers(known)
        steps = [_stopping(part) for part in gone if part.is_running()]
        for name in chosen:
            part, before = self.parts[name], known.parts.get(name)
            if not part.is_running():
                action, why = "start", "not running"
            elif before is not None and before.digest != part.digest():
                action, why = "restart", "it was started with other settings"
            else:
                action, why = "keep", "unchanged"
            if action != "keep" and isinstance(part, PipelinePart):
                part.check()
            steps.append(Step.model_validate({"part": name, "kind": part.kind, "action": action, "detail": why}))
            if action == "start":  # a worker begins with the connectors that it had when it ended
                steps += [_stopping(each) for each in gone if name in each.needs and not each.is_running()]
        return steps

    def _leftovers(self, known: record.Record) -> list[Part]:
        """Return the parts that were started from the file and are no longer in it."""
        return [self._make.recorded(name, each.kind) for name, each in known.parts.items() if name not in self.parts]

    def carry_out(self, steps: Iterable[Step], on_progress: OnProgress) -> Outcome:
        """Do what a plan says; a part that fails to start keeps only the parts that need it from starting."""
        work = _Work(self.parts, on_progress, self._note)
        for step in steps:
            if step.action == "stop":
                work.stop(step, self._stop_leftover)
            else:
                work.do(step)
        return work.finish()

    def _note(self, part: Part) -> None:
        project = self._settings.project
        if part.name not in {*project.services.named(), *project.connectors, *project.pipelines}:
            return  # a command has named it: the next one need not
        with record.changing(self._home) as known:
            known.note(part)

    def _stop_leftover(self, name: str) -> None:
        found = record.load(self._home).parts.get(name)
        if found is None:
            return
        with suppress(NotFound):  # somebody has removed it
            self._make.recorded(name, found.kind).stop()
        with record.changing(self._home) as known:
            known.parts.pop(name, None)

    def _with_former(self) -> dict[str, Part]:
        """Return the parts, and those that were started from the file when it still had them."""
        former = record.load(self._home).parts.items()
        return {**{name: self._make.recorded(name, each.kind) for name, each in former}, **self.parts}

    def running(self) -> list[str]:
        """Return the parts that run, or are about to end; connectors run in their worker."""
        parts = self._with_former().values()
        return [part.name for part in parts if part.kind != "connector" and part.is_running()]

    def stop(self, names: Iterable[str] | None = None) -> list[str]:
        """Stop the parts that run, those that need others first; pipelines finish their batches at the same time."""
        parts = self._with_former()
        chosen = list(parts) if names is None else list(names)
        order.in_order(dict.fromkeys(parts, ()), chosen, (_KAFKA,))  # names that are no parts are refused
        back = reversed(order.in_order({name: part.needs for name, part in parts.items()}))
        # Connectors end with their worker, and go on with it.
        meant = [parts[name] for name in back if name in chosen and (names or parts[name].kind != "connector")]
        running = [part for part in meant if part.is_running()]
        pipelines = [part for part in running if part.kind == "pipeline"]
        for part in pipelines:
            self._on_progress(f"stopping pipeline {part.name}")
        do_all(partial(_stop, part) for part in pipelines)
        for part in running:
            if part.kind != "pipeline":
                self._on_progress(f"stopping {part.name}")
                part.stop()
        return [part.name for part in running]


def _stopping(part: Part) -> Step:
    return Step(part=part.name, kind=part.kind, action="stop", detail="no longer in penstock.yaml")


def _stop(part: Part) -> None:
    with suppress(Conflict):  # it has just ended by itself
        part.stop()


class _Work:
    """Parts on their way up: started as soon as what they need is ready, and waited for as late as possible."""

    def __init__(self, parts: Mapping[str, Part], on_progress: OnProgress, note: Callable[[Part], None]) -> None:
        self._parts = parts
        self._on_progress = on_progress
        self._note = note
        self._pending: list[str] = []
        self._done = Outcome()

    def do(self, step: Step) -> None:
        """Start a part as its step says, once what it needs is ready."""
        part = self._parts[step.part]
        try:
            for need in part.needs:
                self._settle(need)
            if lacking := [need for need in part.needs if need in self._done.failed]:
                raise Conflict(f"{part.kind} '{part.name}' was not started: it needs {', '.join(lacking)}")
            if step.action == "restart":
                part.stop()
            if step.action != "keep":
                part.start()
                self._note(part)
        except PenstockError as error:
            self._done.failed[part.name] = error
        else:
            self._pending.append(part.name)

    def stop(self, step: Step, stop: Callable[[str], None]) -> None:
        """Stop a part that is not in the file any more; a connector once its worker, which begins with it, is ready."""
        try:
            if step.kind == "connector":
                self._settle("connect")
                if "connect" in self._done.failed:
                    raise Conflict(f"connector '{step.part}' was not stopped: its worker is not ready")
            stop(step.part)
        except PenstockError as error:
            self._done.failed[step.part] = error
        else:
            self._on_progress(f"{step.kind} '{step.part}' is stopped")

    def finish(self) -> Outcome:
        """Wait for all that were started."""
        for name in list(self._pending):
            self._settle(name)
        return self._done

    def _settle(self, name: str) -> None:
        """Wait for a part that was started, unless it was waited for already."""
        if name not in self._pending:
            return
        self._pending.remove(name)
        try:
            self._on_progress(self._parts[name].wait())
            self._done.ready.append(name)
        except PenstockError as error:
            self._done.failed[name] = error
