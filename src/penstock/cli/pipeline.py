"""penstock pipeline: from Kafka to tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from penstock.cli.output import Json, Yes, confirmed, moment, print_json, print_lines, print_rows, print_table, say
from penstock.cli.session import session
from penstock.errors import BadInput, Conflict, NotFound
from penstock.quantities import parse_duration_ms

if TYPE_CHECKING:
    from penstock.operate.driver import AnyRunner
    from penstock.operate.status import Status

app = typer.Typer(help="Pipelines: from Kafka to tables, exactly once.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="The pipeline file, YAML or Python.")]
Which = Annotated[str, typer.Argument(help="The pipeline's name, or its file.")]
Name = Annotated[str, typer.Argument(help="The pipeline's name.")]
Master = Annotated[str, typer.Option(help="Spark's master, such as local[*,4] or spark://host:7077.")]


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="Name of the pipeline: lower-case letters, digits, dashes.")],
    topic: Annotated[str, typer.Option(help="Topic to read.")] = "events",
) -> None:
    """Write a commented pipeline file that runs."""
    from penstock.pipeline.spec import NAME
    from penstock.pipeline.template import template

    if NAME.fullmatch(name) is None:
        raise BadInput("a pipeline's name has lower-case letters, digits and dashes, at most 63")
    path = Path(f"{name}.yaml")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(template(name, topic))
    except FileExistsError:
        raise Conflict(f"{path} is there already", safe="It was not touched") from None
    say(f"{path} written. Next: penstock pipeline check {path}")


@app.command()
def check(file: File, as_json: Json = False) -> None:
    """Look for mistakes without starting Spark; unknown columns are warnings."""
    from penstock.pipeline.load import load_with_warnings

    spec, warnings = load_with_warnings(file)
    if as_json:
        print_json({"pipeline": spec.name, "warnings": warnings})
        return
    for warning in warnings:
        say(f"warning: {warning}")
    say(f"pipeline '{spec.name}' can run")


@app.command()
def run(context: typer.Context, file: File, master: Master = "local[*,4]", as_json: Json = False) -> None:
    """Run a pipeline here, until it has caught up (speed scheduled) or Ctrl-C (speed stream)."""
    from penstock.cli.run_display import RunDisplay
    from penstock.operate.driver import run as drive
    from penstock.pipeline.load import load_with_warnings

    spec, warnings = load_with_warnings(file)
    for warning in warnings:
        say(f"warning: {warning}")
    with RunDisplay() as display:
        status = drive(spec, session(context).settings, file, show=display.show, master=master)
    print_json(status) if as_json else _print_account(status)


def _print_account(status: "Status") -> None:
    say(f"pipeline '{status.pipeline}' {status.state}: {status.events:,} events, {status.dead:,} dead letters")
    rows = [[name, each.read, each.written, each.dead, each.dropped] for name, each in status.sinks.items()]
    if rows:
        print_table(["sink", "read", "written", "dead", "dropped"], rows)
    if status.rules:
        print_table(["expectation", "broken"], [[name, count] for name, count in status.rules.items()])


@app.command()
def start(context: typer.Context, file: File, master: Master = "local[*,4]") -> None:
    """Run a pipeline in the background: restarted after outages, stopped by errors that need a person."""
    from penstock.operate.supervisor import start as start_supervisor
    from penstock.pipeline.load import load_with_warnings

    spec, warnings = load_with_warnings(file)
    for warning in warnings:
        say(f"warning: {warning}")
    start_supervisor(spec.name, session(context).settings, file, session(context).arguments(), master)
    say(f"pipeline '{spec.name}' started. Watch it with: penstock pipeline status {spec.name}")


@app.command(hidden=True)
def supervise(context: typer.Context, file: File, master: Master = "local[*,4]") -> None:
    """Run a pipeline's driver, again and again; what `start` puts into the background."""
    from penstock.operate.supervisor import supervise as watch
    from penstock.pipeline.load import load

    raise typer.Exit(watch(load(file).name, session(context).settings, file, session(context).arguments(), master))


@app.command()
def stop(
    context: typer.Context,
    name: Name,
    timeout_s: Annotated[int, typer.Option(help="Seconds to finish the batch at hand; then it ends by force.")] = 60,
) -> None:
    """Stop a pipeline: it finishes the batch at hand."""
    from penstock.operate.supervisor import stop as stop_supervisor

    forced = stop_supervisor(name, session(context).settings, timeout_s)
    say(f"pipeline '{name}' stopped" + (", by force; nothing is lost or doubled" if forced else ""))


@app.command()
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
    _print_account(found)
    if found.reason:
        say(found.reason if not found.exit_code else f"exit code {found.exit_code}: {found.reason}")


@app.command("list")
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


@app.command()
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


@app.command()
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
        chosen = range_replay.find(settings, load(file).name, resume)
    else:
        pairs = dict(each.partition("=")[::2] for each in into or [])
        if "" in {*pairs, *pairs.values()}:
            raise BadInput("--into has the form SINK=TARGET")
        chosen = range_replay.begin(settings, file, since, until, pairs, replace=replace)
    name = chosen.range.id
    say(f"replay {name}: {chosen.range.count:,} offsets. After a crash, go on with --resume {name}")
    with RunDisplay() as display:
        done = range_replay.run(settings, chosen, show=display.show, master=master)
    print_json(done) if as_json else _print_account(done)


@app.command()
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


@app.command()
def rate(
    context: typer.Context,
    name: Name,
    events: Annotated[int | None, typer.Option(help="At most so many events.")] = None,
    per: Annotated[str, typer.Option(help="In how long, such as 1s.")] = "1s",
    off: Annotated[bool, typer.Option("--off", help="No limit at all, whatever the file says.")] = False,
    as_file: Annotated[bool, typer.Option("--as-file", help="Let the pipeline file decide again.")] = False,
    as_json: Json = False,
) -> None:
    """Change how fast a pipeline may read, also while it runs; without an option, show what was said last."""
    from penstock.driver import rate as limits
    from penstock.operate.driver import known_home
    from penstock.pipeline.rate import Rate

    if sum([events is not None, off, as_file]) > 1:
        raise BadInput("--events, --off and --as-file contradict each other: give one")
    folder = known_home(session(context).settings, name).folder
    if as_file:
        limits.forget(folder)
    elif off:
        limits.Override(rate=None).save(folder)
    elif events is not None:
        try:
            limits.Override(rate=Rate(events=events, per=parse_duration_ms(per))).save(folder)
        except ValueError as error:
            raise BadInput(f"--events {events} --per {per} is no rate: {_reason(error)}") from None
    said = limits.Override.load(folder)
    if as_json:
        print_json({"pipeline": name, "override": said is not None, "rate": said.rate if said else None})
    elif said is None:
        say(f"pipeline '{name}': the pipeline file decides")
    elif said.rate is None:
        say(f"pipeline '{name}': no limit")
    else:
        say(f"pipeline '{name}': {said.rate.events:,} events per {said.rate.per:,} ms")


def _reason(error: ValueError) -> str:
    return error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)


@app.command()
def rebuild(context: typer.Context, which: Which, yes: Yes = False, as_json: Json = False) -> None:
    """Rebuild a lost checkpoint from the sinks' positions; it asks if unread records would be left behind."""
    from penstock.driver.realtime import RealtimeRunner
    from penstock.driver.stateful import StatefulRunner
    from penstock.operate import repair

    with _runner(context, which, any_cluster=True) as runner:
        if isinstance(runner, StatefulRunner):
            runner.rebuild()
            say("the next run computes everything again from the landed table, and merges it over what is there")
            return
        if isinstance(runner, RealtimeRunner):
            runner.rebuild()
            say(
                "the next run sends everything again from where the pipeline began, or, if no record of that is left,"
                " from the lag that was reported last, as far as the topics hold it"
            )
            return
        left = repair.forsaken(runner)
        for gap in left:
            say(f"{gap.reason}: {gap.topic}/{gap.partition} was read up to offset {gap.start}")
        if left and not confirmed("What came after that will never be read, and goes on record. Go on?", yes=yes):
            return
        found = repair.rebuild(runner)
    rows = [
        [name, str(partition), at] for name, positions in found.items() for partition, at in sorted(positions.items())
    ]
    if as_json:
        print_json([{"sink": name, "partition": partition, "position": at} for name, partition, at in rows])
        return
    if rows:
        print_table(["sink", "partition", "position"], rows)
    say("the checkpoint is rebuilt; sinks go on from these positions, and one without from the source's start")


@app.command("skip-gap")
def skip_gap(context: typer.Context, which: Which, yes: Yes = False, as_json: Json = False) -> None:
    """Go on past records that are gone; what is skipped is shown first, and recorded."""
    from penstock.driver.realtime import RealtimeRunner
    from penstock.driver.stateful import StatefulRunner
    from penstock.operate import repair

    with _runner(context, which) as runner:
        if isinstance(runner, StatefulRunner):
            raise BadInput("a stateful pipeline reads a table, which has no gaps")
        if isinstance(runner, RealtimeRunner):
            raise BadInput("in real time there is `penstock pipeline rebuild` instead")
        planned = repair.planned_gaps(runner)
        print_rows(planned, as_json=as_json, empty="there is no gap")
        if planned and confirmed("Go on without these?", yes=yes):
            repair.skip_gaps(runner)
            say("recorded, and skipped")


@app.command()
def skip(
    context: typer.Context,
    which: Which,
    record: Annotated[str, typer.Argument(help="The record, TOPIC:PARTITION:OFFSET.")],
    reason: Annotated[str, typer.Option(help="Why; it goes on record.")],
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Give up one record that stops a stopped pipeline; it is on record as a gap of one."""
    from penstock.operate import repair
    from penstock.operate.driver import file_of, home_of
    from penstock.pipeline.load import load

    settings = session(context).settings
    spec = load(file_of(settings, which))
    if confirmed(f"No sink of pipeline '{spec.name}' will ever get {record}. Go on?", yes=yes):
        gap = repair.skip(spec, settings.connection(), home_of(settings, spec.name), record, reason)
        print_json(gap) if as_json else say("recorded; the next batch passes it over")


@app.command()
def gaps(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """List what a pipeline went past unread: what a command gave up, and the rest of deleted topics."""
    from penstock.delivery import gaps as records
    from penstock.operate.driver import known_home

    folder = known_home(session(context).settings, name).folder
    print_rows(records.read(folder), as_json=as_json, empty="no gaps")


def _runner(context: typer.Context, which: str, *, any_cluster: bool = False) -> "AnyRunner":
    from penstock.operate.driver import file_of, make_runner
    from penstock.pipeline.load import load

    settings = session(context).settings
    file = file_of(settings, which)
    return make_runner(load(file), settings, file, any_cluster=any_cluster)
