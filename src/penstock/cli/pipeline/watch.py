"""What pipelines do and did: state, logs, history, gaps."""

from typing import Annotated

import typer

from penstock.cli.output import Json, moment, print_json, print_lines, print_rows, print_table, say
from penstock.cli.pipeline.common import Name, print_account
from penstock.cli.session import session
from penstock.errors import NotFound


def status(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show what a pipeline is doing."""
    from penstock.operate.driver import known_home
    from penstock.operate.status import load

    found = load(known_home(session(context).settings, name).folder)
    if found is None:
        raise NotFound(
            f"no driver of pipeline '{name}' has run here", fix="Start it with: penstock pipeline start FILE"
        )
    if as_json:
        print_json(found)
        return
    print_table(
        ["pipeline", "state", "batch", "events", "dead", "lag", "events/s", "batch s"],
        [
            [
                found.pipeline,
                found.state,
                found.batch,
                found.events,
                found.dead,
                found.lag,
                found.events_per_s,
                found.batch_seconds,
            ]
        ],
    )
    print_account(found)
    if found.reason:
        say(found.reason if not found.exit_code else f"exit code {found.exit_code}: {found.reason}")


def list_(context: typer.Context, as_json: Json = False) -> None:
    """List the pipelines that have run here."""
    from penstock.operate.status import load

    folder = session(context).settings.home / "pipelines"
    found = [load(path) for path in sorted(folder.iterdir())] if folder.is_dir() else []
    known = [each for each in found if each is not None]
    if as_json:
        print_json(known)
    elif not known:
        say("no pipelines yet. Begin with: penstock pipeline new NAME")
    else:
        rows = [[each.pipeline, each.state, each.events, each.dead, each.lag, each.file] for each in known]
        print_table(["pipeline", "state", "events", "dead", "lag", "file"], rows)


def logs(
    context: typer.Context,
    name: Name,
    spark: Annotated[bool, typer.Option(help="What Spark said, instead of the driver.")] = False,
    lines: Annotated[int, typer.Option(help="How many of the last lines.")] = 50,
) -> None:
    """Show the end of a pipeline's log."""
    from penstock.operate.driver import known_home

    path = known_home(session(context).settings, name).logs / ("spark.log" if spark else "driver.log")
    if not path.exists():
        raise NotFound(f"there is no log {path}", fix="`penstock pipeline run` talks to the terminal; `start` to a log")
    print_lines(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def history(
    context: typer.Context,
    name: Name,
    batches: Annotated[bool, typer.Option("--batches", help="Batches instead of runs.")] = False,
    count: Annotated[int, typer.Option(min=1, help="How many, the newest first.")] = 20,
    as_json: Json = False,
) -> None:
    """Show the record of a pipeline's runs, or of its batches, of the last 30 days."""
    from penstock.operate import history as records
    from penstock.operate.driver import known_home

    home = session(context).settings.home
    known_home(session(context).settings, name)
    if batches:
        listed = records.batches(home, name, count)
        found = [each.model_dump(exclude={"detail"}) | {"at": moment(each.at)} for each in listed]
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
        say(f"there is no record of pipeline '{name}' any more")


def gaps(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """List what a pipeline went past unread: what a command gave up, and the rest of deleted topics."""
    from penstock.delivery import gaps as records
    from penstock.operate.driver import known_home

    folder = known_home(session(context).settings, name).folder
    print_rows(records.read(folder), as_json=as_json, empty="no gaps")
