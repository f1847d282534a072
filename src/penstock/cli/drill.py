"""penstock drill: what the textbooks say about Kafka, done on a throwaway cluster."""

import tempfile
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import completion
from penstock.cli.output import Json, print_json, print_table, say
from penstock.cli.progress import Bar, bar
from penstock.cli.session import session
from penstock.errors import BadInput
from penstock.private import make_missing_private

if TYPE_CHECKING:
    from penstock.lab.drills.drill import Drill, StepResult

_FAILED = 1
_LIST = "list"


def drill(
    context: typer.Context,
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="Which drills; `all` for every one, `list` to see them.",
            autocompletion=completion.drills,
        ),
    ],
    as_json: Json = False,
) -> None:
    """Show what the textbooks say about Kafka, on a throwaway cluster of three nodes, with explanations."""
    from penstock.lab.drills.catalog import DRILLS, choose

    if _LIST in names:
        if names != [_LIST]:
            raise BadInput("`penstock drill list` takes no other name")
        rows = [{"drill": each.name, "what it shows": each.about} for each in DRILLS.values()]
        if as_json:
            print_json(rows)
        else:
            print_table(list(rows[0]), [list(row.values()) for row in rows])
        return
    began = time.monotonic()
    results = _perform(context, choose(names))
    if as_json:
        print_json(results)
    else:
        say("")
        print_table(
            ["drill", "step", "what was done", "result", "seconds"],
            [[each.drill, each.step, each.did, "pass" if each.passed else "FAIL", each.seconds] for each in results],
        )
    failed = [each for each in results if not each.passed]
    passed = len(results) - len(failed)
    say(f"{passed} of {len(results)} steps passed, {time.monotonic() - began:.0f} s with the cluster's start and stop")
    if failed:
        say(f"error: {len(failed)} of {len(results)} steps did not go as expected, the first in '{failed[0].drill}'")
        raise typer.Exit(_FAILED)


def _perform(context: typer.Context, drills: "list[Drill]") -> "list[StepResult]":
    from pathlib import Path

    from penstock.lab.drills.drill import Stage, perform
    from penstock.lab.drills.throwaway import three_nodes

    settings = session(context).settings
    make_missing_private(settings.home)
    narrator = _Terminal()
    with tempfile.TemporaryDirectory(prefix="drill-", dir=settings.home) as place, ExitStack() as stack:
        stack.callback(narrator.waited)
        cluster = stack.enter_context(three_nodes(Path(place), settings.jars, narrator.talk))
        narrator.waited()
        stage = Stage(cluster, Path(place), narrator)
        return [result for each in drills for result in perform(each, stage)]


class _Terminal:
    """Shows the story on stderr, with a bar for waits that take long."""

    def __init__(self) -> None:
        self._shown: Bar | None = None
        self._open = ExitStack()

    def say(self, line: str) -> None:
        say(line)

    def talk(self, what: str) -> None:
        """Show that something has begun, until the next begins."""
        self.waited()
        self._show(what)

    def waiting(self, what: str, passed_s: float, limit_s: float) -> None:
        shown = self._shown or self._show(f"     waiting for {what} (in seconds)")
        shown.update(int(passed_s), int(limit_s))

    def waited(self) -> None:
        self._open.close()
        self._shown = None

    def _show(self, what: str) -> Bar:
        self._shown = self._open.enter_context(bar(what))
        self._shown.describe(what)
        return self._shown
