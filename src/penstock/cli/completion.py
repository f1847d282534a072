"""What the shell offers when a user presses Tab: names that are there. Quick, and silent about errors."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from penstock.cli.session import Session
from penstock.config.service_names import SERVICE_NAMES

if TYPE_CHECKING:
    from penstock.kafka.admin import Admin

_ANSWER_S = 0.5
_PLAIN = re.compile(r"[\w./:@%+=,-]+")
_SUFFIXES = {".yaml", ".yml", ".py"}


def _session(context: typer.Context) -> Session:
    """Return the session that the command would have: Tab runs no callback, so the root's options are read here."""
    given = context.find_root().params
    project, home = given.get("project"), given.get("home")
    return Session(
        project_file=Path(project) if project else None,
        home=Path(home) if home else None,
        bootstrap=given.get("bootstrap"),
        user=given.get("as_user"),
    )


def _names(look: Callable[[typer.Context], Iterator[str]]) -> Callable[[typer.Context, str], list[str]]:
    """Offer the names that start with what was typed; none if they cannot be looked up.

    Shells insert them unquoted, and other people may have chosen them, so names that a shell would execute are left
    out.
    """

    def offered(ctx: typer.Context, incomplete: str) -> list[str]:
        with suppress(Exception):
            return sorted(name for name in look(ctx) if name.startswith(incomplete) and _PLAIN.fullmatch(name))
        return []

    return offered


def _admin(context: typer.Context) -> "Admin":
    from penstock.kafka.admin import Admin

    return Admin(_session(context).connection(), timeout_s=_ANSWER_S)


@_names
def topics(context: typer.Context) -> Iterator[str]:
    """Offer the topics that are not internal."""
    found = _admin(context).metadata("listing topics").topics
    return (name for name in found if not name.startswith("__"))


@_names
def groups(context: typer.Context) -> Iterator[str]:
    """Offer the consumer groups."""
    from penstock.kafka.groups import list_groups

    return (each.group for each in list_groups(_admin(context)))


def _pipelines(context: typer.Context) -> Iterator[str]:
    from penstock.driver.paths import pipeline_folders

    return (each.name for each in pipeline_folders(_session(context).settings.home))


@_names
def pipelines(context: typer.Context) -> Iterator[str]:
    """Offer the pipelines that have run here."""
    return _pipelines(context)


@_names
def pipelines_and_files(context: typer.Context) -> Iterator[str]:
    """Offer the pipelines that have run here, and the files that look like one."""
    with suppress(OSError):
        yield from _pipelines(context)
    yield from (str(each) for each in Path().iterdir() if each.suffix in _SUFFIXES and each.name != "penstock.yaml")


@_names
def parts(context: typer.Context) -> Iterator[str]:
    """Offer the parts of the project."""
    project = _session(context).settings.project
    return iter(["kafka", *SERVICE_NAMES, *project.connectors, *project.pipelines])


@_names
def tables(_context: typer.Context) -> Iterator[str]:
    """Offer the folders of tables here and one or two below."""
    from penstock.sinks.table_folders import table_folders

    return table_folders(Path())


@_names
def examples(_context: typer.Context) -> Iterator[str]:
    """Offer the examples."""
    from penstock.cli.examples import names

    return iter(names())


@_names
def example_pipelines(_context: typer.Context) -> Iterator[str]:
    """Offer the examples that are one pipeline file."""
    from penstock.example_files import example_pipelines

    return iter(example_pipelines())


@_names
def scenarios(_context: typer.Context) -> Iterator[str]:
    """Offer the scenarios."""
    from penstock.lab.scenarios.names import ABOUT

    return iter([*ABOUT, "list"])


@_names
def drills(_context: typer.Context) -> Iterator[str]:
    """Offer the drills."""
    from penstock.lab.drills.names import NAMES

    return iter([*NAMES, "list"])
