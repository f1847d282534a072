"""Run pipelines: here, in the background, and over a range of the past."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import INTERRUPTED, Json, print_json, say, say_error
from penstock.cli.pipeline.common import File, Master, Name, Stream, load_and_warn, print_account
from penstock.cli.progress import bar
from penstock.cli.session import session
from penstock.errors import BadInput, Transient
from penstock.wording import plural

if TYPE_CHECKING:
    from penstock.operate.status import Status


def run(
    context: typer.Context,
    file: File,
    once: Annotated[
        bool, typer.Option("--once", help="End when it has caught up, also if its speed is stream.")
    ] = False,
    stream: Stream = False,
    master: Master = "local[*,4]",
    as_json: Json = False,
) -> None:
    """Run a pipeline here, until it has caught up (speed scheduled, or --once) or Ctrl-C (speed stream)."""
    from penstock.cli.run_display import run_display
    from penstock.operate.driver import run as drive

    if once and stream:
        raise BadInput("give --once or --stream, not both")
    spec = load_and_warn(file, once=once, stream=stream, master=master)
    with run_display() as show:
        status = drive(spec, session(context).settings, file, show=show, master=master)
    print_json(status) if as_json else print_account(status)
    if status.state == "stopped" and spec.speed == "scheduled":
        # Scripts go on after exit code 0, with tables that lack what was left.
        command = f"penstock pipeline run {file}{' --once' if once else ''}"
        text = f"interrupted before it had caught up; nothing is lost or doubled. Go on with: {command}"
        say_error(text, exit_code=INTERRUPTED, as_json=True) if as_json else say(text)
        raise typer.Exit(INTERRUPTED)


def start(
    context: typer.Context,
    file: File,
    master: Master = "local[*,4]",
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until it runs, or has failed; --no-wait for scripts.")
    ] = True,
    stream: Stream = False,
    as_json: Json = False,
) -> None:
    """Run a pipeline in the background: restarted after outages, stopped by errors that need a person."""
    from penstock.operate import supervisor

    spec = load_and_warn(file, stream=stream, master=master)
    settings = session(context).settings
    supervisor.start(spec.name, settings, file, session(context).arguments(), master, stream=stream)
    watch = f"Watch it with: penstock pipeline status {spec.name} --watch"
    if not wait:
        say(f"pipeline '{spec.name}' is starting. {watch}")
        return
    try:
        with bar("starting") as shown:
            done = supervisor.wait_for_first_batch(
                spec.name,
                settings,
                # How it ended is said below.
                lambda status: None if status.has_ended else shown.describe(_state(status)),
            )
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(
            f"pipeline '{spec.name}' keeps running in the background. {watch};"
            f" stop it with: penstock pipeline stop {spec.name}"
        )
        raise
    if as_json:
        print_json(done)
    if done.state in {"failed", "crashed", "waiting"}:
        exit_code = done.exit_code or Transient.exit_code
        say_error(f"pipeline '{spec.name}' {_outcome(done, watch)}", exit_code=exit_code, as_json=as_json)
        raise typer.Exit(exit_code)
    if done.has_ended:
        print_account(done)
        return
    say(f"pipeline '{spec.name}' is running: {plural(done.events, 'event')} so far, lag {done.lag or 0:,}. {watch}")


def _state(status: "Status") -> str:
    return ": ".join(filter(None, (status.state, status.reason)))


def _outcome(done: "Status", watch: str) -> str:
    """Return why a pipeline does not run, and what to look at."""
    reason = done.reason.removeprefix(f"pipeline '{done.pipeline}': ").rstrip(".")
    if done.state == "waiting":
        stop = f"stop it with: penstock pipeline stop {done.pipeline}"
        return f"is waiting: {reason}. It keeps trying in the background. {watch}; {stop}"
    return f"{done.state}: {reason}. See also: penstock pipeline logs {done.pipeline}"


def supervise(context: typer.Context, file: File, master: Master = "local[*,4]", stream: Stream = False) -> None:
    """Run a pipeline's driver, again and again; what `start` puts into the background."""
    from penstock.operate.supervisor import supervise as watch
    from penstock.pipeline.load import load

    current = session(context)
    raise typer.Exit(watch(load(file).name, current.settings, file, current.arguments(), master, stream=stream))


def stop(
    context: typer.Context,
    name: Name,
    timeout_s: Annotated[int, typer.Option(help="Seconds to finish the current batch; after that it is killed.")] = 60,
) -> None:
    """Stop a pipeline after its current batch."""
    from penstock.operate.supervisor import stop as stop_supervisor

    try:
        with bar("finishing the current batch"):
            forced = stop_supervisor(name, session(context).settings, timeout_s)
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(
            f"pipeline '{name}' was asked to stop and ends after its current batch. See: penstock pipeline"
            f" status {name}"
        )
        raise
    say(f"pipeline '{name}' stopped" + (", by force; nothing is lost or doubled" if forced else ""))


def replay(
    context: typer.Context,
    file: File,
    since: Annotated[str, typer.Option("--from", help="First record: a time, 2h ago, or an offset.")] = "",
    until: Annotated[
        str, typer.Option("--to", help="Where to stop, exclusive: a time, 1h ago, or an offset.")
    ] = "latest",
    into: Annotated[list[str] | None, typer.Option(help="SINK=TARGET: another table, folder or topic.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the rows of these records where they are.")
    ] = False,
    resume: Annotated[str, typer.Option(help="Id of a replay that did not finish.")] = "",
    master: Master = "local[*,4]",
    as_json: Json = False,
) -> None:
    """Send a range of the past through a pipeline again; the live pipeline is not touched."""
    from penstock.cli.run_display import run_display
    from penstock.operate import range_replay
    from penstock.pipeline.load import load

    settings = session(context).settings
    if bool(since) == bool(resume):
        raise BadInput("say where to begin with --from, or which replay to continue with --resume")
    if resume:
        chosen = range_replay.find(settings, load(file).name, resume, file)
    else:
        pairs = dict(each.partition("=")[::2] for each in into or [])
        if "" in {*pairs, *pairs.values()}:
            raise BadInput("--into has the form SINK=TARGET")
        chosen = range_replay.begin(settings, file, since, until, pairs, replace=replace)
    name = chosen.range.id
    say(f"replay {name}: {chosen.range.count:,} offsets. After a crash, continue with --resume {name}")
    with run_display() as show:
        done = range_replay.run(settings, chosen, show=show, master=master)
    print_json(done) if as_json else print_account(done)
