"""Get a stopped pipeline going again: whatever is skipped is shown first, and recorded."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import Json, Yes, confirm, print_json, print_rows, print_table, say
from penstock.cli.pipeline.common import Which
from penstock.cli.progress import bar
from penstock.cli.session import session
from penstock.errors import BadInput

if TYPE_CHECKING:
    from penstock.operate.driver import AnyRunner


def rebuild(
    context: typer.Context,
    which: Which,
    may_repeat: Annotated[
        bool, typer.Option("--may-repeat", help="Go on even if a sink may get rows a second time.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
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
        with bar("reading the positions of every sink"):
            left = repair.forsaken(runner)
        for gap in left:
            say(f"{gap.reason}: {gap.topic}/{gap.partition} was read up to offset {gap.start}")
        if left:
            confirm("What came after that will never be read, and is recorded as a gap. Continue?", yes=yes)
        with bar("rebuilding the checkpoint") as shown:

            def show(topic: str, done: int, total: int) -> None:
                shown.update(done, total, what=f"looking for positions in topic '{topic}'")

            found = repair.rebuild(runner, may_repeat=may_repeat, on_read=show)
    rows = [
        [name, str(partition), at] for name, positions in found.items() for partition, at in sorted(positions.items())
    ]
    if as_json:
        print_json([{"sink": name, "partition": partition, "position": at} for name, partition, at in rows])
        return
    if rows:
        print_table(["sink", "partition", "position"], rows)
    say("the checkpoint is rebuilt; sinks continue from these positions, and those without one from the source's start")


def skip_gap(context: typer.Context, which: Which, yes: Yes = False, as_json: Json = False) -> None:
    """Continue past records that are gone; what is skipped is shown first, and recorded."""
    from penstock.driver.realtime import RealtimeRunner
    from penstock.driver.stateful import StatefulRunner
    from penstock.operate import repair

    with _runner(context, which) as runner:
        if isinstance(runner, StatefulRunner):
            raise BadInput("a stateful pipeline reads a table, which has no gaps")
        if isinstance(runner, RealtimeRunner):
            raise BadInput("a real-time pipeline has no gaps: use `penstock pipeline rebuild`")
        planned = repair.planned_gaps(runner)
        print_rows(planned, as_json=as_json, empty="there is no gap")
        if planned and runner.spec.has_changes:
            say(
                "rows that were deleted in what is gone stay in the mirror. To have the table as it is, capture it"
                " again, let the sink write to an empty table, then run: penstock pipeline rebuild"
                f" {runner.spec.name}"
            )
        if planned:
            confirm("Continue without these?", yes=yes)
            repair.skip_gaps(runner)
            say("recorded, and skipped")


def skip(
    context: typer.Context,
    which: Which,
    record: Annotated[str, typer.Argument(help="The record, TOPIC:PARTITION:OFFSET.")],
    reason: Annotated[str, typer.Option(help="Why; it is recorded.")],
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Skip one record at which a pipeline stops; it is recorded as a gap of one record."""
    from penstock.operate import repair
    from penstock.operate.known_pipelines import file_of, paths_of
    from penstock.pipeline.load import load

    settings = session(context).settings
    spec = load(file_of(settings, which))
    confirm(f"No sink of pipeline '{spec.name}' will ever get {record}. Continue?", yes=yes)
    gap = repair.skip(spec, settings.connection(), paths_of(settings, spec.name), record, reason)
    print_json(gap) if as_json else say("recorded; the next batch passes it over")


def _runner(context: typer.Context, which: str, *, any_cluster: bool = False) -> "AnyRunner":
    from penstock.operate.driver import make_runner
    from penstock.operate.known_pipelines import file_of
    from penstock.pipeline.load import load

    settings = session(context).settings
    file = file_of(settings, which)
    return make_runner(load(file), settings, file, any_cluster=any_cluster)
