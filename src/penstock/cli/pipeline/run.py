"""Run pipelines: here, in the background, and over a range of the past."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import Json, plural, print_json, say, say_error
from penstock.cli.pipeline.common import File, Master, Name, load_and_warn, print_account
from penstock.cli.progress import bar
from penstock.cli.session import session
from penstock.errors import BadInput, Transient

if TYPE_CHECKING:
    from penstock.operate.status import Status


def run(
    context: typer.Context,
    file: File,
    once: Annotated[
        bool, typer.Option("--once", help="End when it has caught up, also if its speed is stream.")
    ] = False,
    master: Master = "local[*,4]",
    as_json: Json = False,
) -> None:
    """Run a pipeline here, until it has caught up (speed scheduled, or --once) or Ctrl-C (speed stream)."""
    from penstock.cli.run_display import RunDisplay
    from penstock.operate.driver import run as drive

    spec = load_and_warn(file, once=once)
    with RunDisplay() as display:
        status = drive(spec, session(context).settings, file, show=display.show, master=master)
    print_json(status) if as_json else print_account(status)


def start(
    context: typer.Context,
    file: File,
    master: Master = "local[*,4]",
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until it runs, or has failed; --no-wait for scripts.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Run a pipeline in the background: restarted after outages, stopped by errors that need a person."""
    from penstock.operate import supervisor

    spec = load_and_warn(file)
    settings = session(context).settings
    supervisor.start(spec.name, settings, file, session(context).arguments(), master)
    watch = f"Watch it with: penstock pipeline status {spec.name} --watch"
    if not wait:
        say(f"pipeline '{spec.name}' is starting. {watch}")
        return
    with bar("starting") as shown:
        done = supervisor.wait_for_first_batch(
            spec.name, settings, lambda status: shown.describe(f"{status.state} {status.reason}".strip())
        )
    if as_json:
        print_json(done)
    if done.state in {"failed", "crashed", "waiting"}:
        exit_code = done.exit_code or Transient.exit_code
        say_error(f"pipeline '{spec.name}' {_outcome(done, watch)}", exit_code=exit_code, as_json=as_json)
        raise typer.Exit(exit_code)
    if done.has_ended:
        print_account(done)
        return
    say(f"pipeline '{spec.name}' is running: {plural(done.events, 'event')} so far, lag {done.lag:,}. {watch}")


def _outcome(done: "Status", watch: str) -> str:
    """Say why a pipeline does not run, and what to look at."""
    if done.state == "waiting":
        return f"is waiting: {done.reason.rstrip('.')}. It goes on by itself once that is over. {watch}"
    return f"{done.state}: {done.reason.rstrip('.')}. See also: penstock pipeline logs {done.pipeline}"


def supervise(context: typer.Context, file: File, master: Master = "local[*,4]") -> None:
    """Run a pipeline's driver, again and again; what `start` puts into the background."""
    from penstock.operate.supervisor import supervise as watch
    from penstock.pipeline.load import load

    raise typer.Exit(watch(load(file).name, session(context).settings, file, session(context).arguments(), master))


def stop(
    context: typer.Context,
    name: Name,
    timeout_s: Annotated[int, typer.Option(help="Seconds to finish the batch at hand; then it ends by force.")] = 60,
) -> None:
    """Stop a pipeline: it finishes the batch at hand."""
    from penstock.operate.supervisor import stop as stop_supervisor

    forced = stop_supervisor(name, session(context).settings, timeout_s)
    say(f"pipeline '{name}' stopped" + (", by force; nothing is lost or doubled" if forced else ""))


def replay(
    context: typer.Context,
    file: File,
    since: Annotated[str, typer.Option("--from", help="First record: a time, 2h ago, or an offset.")] = "",
    until: Annotated[
        str, typer.Option("--to", help="Where to end, before this: a time, 1h ago, or an offset.")
    ] = "latest",
    into: Annotated[list[str] | None, typer.Option(help="SINK=TARGET: another table, folder or topic.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the rows of these records where they are.")
    ] = False,
    resume: Annotated[str, typer.Option(help="Id of a replay that did not get to its end.")] = "",
    master: Master = "local[*,4]",
    as_json: Json = False,
) -> None:
    """Send a range of the past through a pipeline again; the live pipeline is not touched."""
    from penstock.cli.run_display import RunDisplay
    from penstock.operate import range_replay
    from penstock.pipeline.load import load

    settings = session(context).settings
    if bool(since) == bool(resume):
        raise BadInput("say where to begin with --from, or which replay to go on with by --resume")
    if resume:
        chosen = range_replay.find(settings, load(file).name, resume, file)
    else:
        pairs = dict(each.partition("=")[::2] for each in into or [])
        if "" in {*pairs, *pairs.values()}:
            raise BadInput("--into has the form SINK=TARGET")
        chosen = range_replay.begin(settings, file, since, until, pairs, replace=replace)
    name = chosen.range.id
    say(f"replay {name}: {chosen.range.count:,} offsets. After a crash, go on with --resume {name}")
    with RunDisplay() as display:
        done = range_replay.run(settings, chosen, show=display.show, master=master)
    print_json(done) if as_json else print_account(done)
