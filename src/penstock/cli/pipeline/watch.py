"""What pipelines do and did: state, logs, history, gaps."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import completion
from penstock.cli.output import Json, moment, print_json, print_rows, print_table, say
from penstock.cli.pipeline.common import Name, print_account
from penstock.cli.session import session
from penstock.errors import NotFound

if TYPE_CHECKING:
    from penstock.config.settings import Settings
    from penstock.operate.status import Status

_COLUMNS = ["pipeline", "state", "batch", "events", "dead", "lag", "events_per_s", "batch_seconds"]
_STATE = _COLUMNS.index("state")
_LAG = _COLUMNS.index("lag")
_OF_JAVA = "WARNING: Using incubator modules:"
"""What Java says at every start of Spark, where the steps print."""


def status(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="The pipeline's name; all if left out.", autocompletion=completion.pipelines)
    ] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep showing it as it changes, until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a pipeline is doing, or all of them."""
    from penstock.operate import status as states
    from penstock.operate.known_pipelines import known_paths

    settings = session(context).settings
    if watch:
        _watch(settings, name, as_json=as_json)
        return
    if not name:
        list_(context, as_json=as_json)
        return
    found = states.load(known_paths(settings, name).folder)
    if found is None:
        raise NotFound(
            f"no driver of pipeline '{name}' has run here", fix="Start it with: penstock pipeline start FILE"
        )
    states.ask_for_lag([found], session(context).connection)
    if as_json:
        print_json(found)
        return
    print_table(_COLUMNS, [_row(found)])
    print_account(found)
    if found.reason:
        say(found.reason if not found.exit_code else f"exit code {found.exit_code}: {found.reason}")


def _row(found: "Status") -> list[object]:
    return [getattr(found, name) for name in _COLUMNS]


def _watch(settings: "Settings", name: str, *, as_json: bool) -> None:
    from penstock.cli import live
    from penstock.operate import status as states
    from penstock.operate.known_pipelines import known_paths

    over = {*states.ENDED, "crashed"}
    folders = [known_paths(settings, name).folder] if name else None

    def look() -> list[list[object]]:
        found = states.load_all(settings.home) if folders is None else map(states.load, folders)
        rows = [[*_row(each), each.reason] for each in found if each is not None]
        for row in rows if folders is None else ():
            if row[_STATE] in over:  # and what has come since is not asked for again and again
                row[_LAG] = None
        return rows

    live.watch(
        [*_COLUMNS, "reason"],
        look,
        is_over=lambda rows: bool(name) and all(row[_STATE] in over for row in rows),
        as_json=as_json,
    )


def list_(context: typer.Context, as_json: Json = False) -> None:
    """List the pipelines that have run here."""
    from penstock.operate import status as states

    known = states.load_all(session(context).settings.home)
    states.ask_for_lag(known, session(context).connection)
    if as_json:
        print_json(known)
    elif not known:
        session(context).settings.require_no_cluster_above()  # there they have run, most likely
        new = "penstock pipeline new NAME"
        say(f"no pipeline has run here. Run one with: penstock pipeline run FILE; write one with: {new}")
    else:
        rows = [[each.pipeline, each.state, each.events, each.dead, each.lag, each.file] for each in known]
        print_table(["pipeline", "state", "events", "dead", "lag", "file"], rows)


def logs(
    context: typer.Context,
    name: Name,
    spark: Annotated[bool, typer.Option("--spark", help="Spark's log, instead of the driver's.")] = False,
    steps: Annotated[
        bool, typer.Option("--steps", help="What the steps printed, instead of the driver's log.")
    ] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing lines as they arrive.")] = False,
) -> None:
    """Show the end of a pipeline's log."""
    from penstock.cli import live
    from penstock.driver.paths import SPARK_CONSOLE
    from penstock.operate.known_pipelines import known_paths

    file = SPARK_CONSOLE if steps else "spark.log" if spark else "driver.log"
    path = known_paths(session(context).settings, name).logs / file
    if not path.exists():
        raise NotFound(f"there is no log {path}", fix="`penstock pipeline run` logs to the terminal, `start` to a file")
    live.print_log(path, lines=lines, goes_on=follow, leave_out=_OF_JAVA if steps else None)


def history(
    context: typer.Context,
    name: Name,
    batches: Annotated[bool, typer.Option("--batches", help="Batches instead of runs.")] = False,
    count: Annotated[int, typer.Option(min=1, help="How many, the newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """Show the record of a pipeline's runs, or of its batches, of the last 30 days."""
    from penstock.operate import history as records
    from penstock.operate.known_pipelines import known_paths

    home = session(context).settings.home
    known_paths(session(context).settings, name)
    if batches:
        listed = records.batches(home, name, count)
        found = [
            each.model_dump(exclude={"detail"}) | {"at": moment(each.at), "seconds": round(each.seconds, 2)}
            for each in listed
        ]
        print_json(listed) if as_json else _print_found(name, found)
        return
    runs = records.runs(home, name, count)
    shown = {"id", "state", "batches", "events", "dead"}
    times = [{"started": moment(each.started), "ended": moment(each.ended)} for each in runs]
    found = [each.model_dump(include=shown) | time for each, time in zip(runs, times, strict=True)]
    print_json(runs) if as_json else _print_found(name, found)


def _print_found(name: str, found: list[dict[str, object]]) -> None:
    if found:
        print_table(list(found[0]), [list(each.values()) for each in found])
    else:
        say(f"there is no longer a record of pipeline '{name}'")


def gaps(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """List what a pipeline never read: what a command gave up, and the rest of deleted topics."""
    from penstock.delivery import gaps as records
    from penstock.operate.known_pipelines import known_paths

    folder = known_paths(session(context).settings, name).folder
    print_rows(records.read(folder), as_json=as_json, empty="no gaps")
