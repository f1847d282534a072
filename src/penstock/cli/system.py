"""The parts of a project beside Kafka, as `up`, `down`, `restart` and `logs` have them."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from penstock.cli import completion
from penstock.cli.output import print_table, say
from penstock.cli.session import Session
from penstock.config.service_names import SERVICE_NAMES, ServiceName
from penstock.errors import NotFound
from penstock.extras import Extra, require
from penstock.wording import nearest

if TYPE_CHECKING:
    from penstock.config.services import Services
    from penstock.services.context import OnProgress
    from penstock.services.control import LocalServices
    from penstock.system.part import Step
    from penstock.system.system import System

KAFKA = "kafka"
PartName = Annotated[
    str | None,
    typer.Argument(help="A service or pipeline instead of Kafka.", show_default=False, autocompletion=completion.parts),
]
PartNames = Annotated[
    list[str] | None,
    typer.Argument(
        help="Parts, such as console or a pipeline; all if left out.",
        show_default=False,
        autocompletion=completion.parts,
    ),
]
_EXTRAS: dict[ServiceName, Extra] = {
    "registry": "services",
    "gateway": "lineage",
    "lineage": "lineage",
    "console": "console",
    "simulator": "lab",
}


class ProgressRelay:
    """Passes progress messages on to whatever displays them; at first nothing does."""

    def __init__(self) -> None:
        self.to: Callable[[str], None] = lambda _line: None

    def __call__(self, line: str) -> None:
        """Say what is happening."""
        self.to(line)


def wanted(current: Session, names: Iterable[str] = ()) -> "Services":
    """Return the services of the project file and those that the command names, with every default."""
    from penstock.config.services import Services

    in_file = current.settings.project.services
    more: dict[str, dict[str, str]] = {
        name: {} for name in names if name in get_args(ServiceName) and getattr(in_file, name) is None
    }
    added = Services.model_validate(more)
    return in_file.model_copy(update={name: getattr(added, name) for name in more})


def known(current: Session) -> "Services":
    """Return the services of the project file and those that were started here."""
    from penstock.services.control import known_services

    return wanted(current, known_services(current.settings.home))


def make(current: Session, services: "Services", on_progress: "OnProgress") -> "System":
    """Return the system with these services; raise if one of them cannot be started here."""
    from penstock.system.system import System

    return System(
        current.settings, current.arguments(), services, lambda: local_services(current, on_progress), on_progress
    )


def require_extras(steps: "Iterable[Step]") -> None:
    """Raise before anything is started if what a service needs is not installed."""
    for step in steps:
        for name, extra in _EXTRAS.items():
            if step.part == name and step.action != "stop":
                require(extra, f"the {name}")


def show_plan(steps: "list[Step]") -> None:
    """Show what will be done."""
    fields = ("part", "kind", "action", "detail")
    print_table(fields, [[getattr(step, field) for field in fields] for step in steps])


def restart(current: Session, name: str, on_progress: "OnProgress") -> str | None:
    """Restart one part with the settings of now; return its address if it has one."""
    if name in SERVICE_NAMES:
        services = local_services(current, on_progress)
        address = services.restart(name, current.settings.project.services)
        say(f"{name} is ready at {address.shown}")
        return address.url
    whole = make(current, current.settings.project.services, on_progress)
    if name not in whole.parts:
        close = nearest(name, [KAFKA, *SERVICE_NAMES, *whole.parts])
        fix = f"Did you mean '{close}'?" if close else f"Its parts are: {', '.join([KAFKA, *whole.parts])}"
        raise NotFound(f"the project has no part '{name}'", fix=fix)
    part = whole.parts[name]
    if part.is_running():
        part.stop()
    part.start()
    say(part.wait())
    return None


def log(current: Session, name: str) -> Path:
    """Return the log of a service or pipeline."""
    from penstock.config.local_services import folder_of, never_started
    from penstock.operate.known_pipelines import known_paths
    from penstock.services.supervisor import console_log

    if name in current.settings.project.connectors:
        fix = f"Its worker's: penstock logs connect; why it failed: penstock connect show {name} --trace"
        raise NotFound(f"connector '{name}' has no log of its own", fix=fix)
    if name not in SERVICE_NAMES:
        try:
            return known_paths(current.settings, name).driver_log
        except NotFound:
            if (close := nearest(name, SERVICE_NAMES)) is None:
                raise
            raise NotFound(f"there is no part '{name}'", fix=f"Did you mean '{close}'?") from None
    folder = folder_of(current.settings.home, name)
    if not folder.exists():
        raise never_started(name)
    said = folder / "logs" / "service.log"
    return said if said.is_file() else console_log(folder)


def local_services(current: Session, on_progress: "OnProgress") -> "LocalServices":
    """Return what starts services around the cluster, which has to run."""
    from penstock.services.context import ServiceContext
    from penstock.services.control import LocalServices

    return LocalServices(ServiceContext.of(current.settings, current.arguments(), on_progress))
