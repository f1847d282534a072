"""penstock group: who reads, how far behind, and moving them."""

from typing import Annotated

import typer

from penstock.cli import completion
from penstock.cli.output import Json, Yes, confirm, print_json, print_rows, print_table, say
from penstock.cli.session import session
from penstock.errors import BadInput, Conflict, NotFound

app = typer.Typer(help="Consumer groups.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The group's name.", autocompletion=completion.groups)]


@app.command("list")
def list_(context: typer.Context, as_json: Json = False) -> None:
    """List groups."""
    from penstock.kafka import groups

    print_rows(groups.list_groups(session(context).admin()), as_json=as_json, empty="no groups")


@app.command()
def describe(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show members, and positions and lag per partition."""
    from penstock.kafka import groups

    detail = groups.describe(session(context).admin(), name)
    if as_json:
        print_json(detail)
        return
    print_table(["group", "state", "members", "lag"], [[detail.group, detail.state, len(detail.members), detail.lag]])
    print_rows(detail.partitions, as_json=False, empty="no positions yet")
    if detail.members:
        print_rows(detail.members, as_json=False)


@app.command()
def reset(
    context: typer.Context,
    name: Name,
    topic: Annotated[
        list[str] | None, typer.Option(help="Topic to move in; all the group has positions in, if left out.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="earliest, latest, an offset, a time (2026-01-31T12:00) or how long ago (15m)."),
    ] = None,
    by: Annotated[int | None, typer.Option(help="So many records forward, or back if negative.")] = None,
    like: Annotated[str | None, typer.Option(help="To where this other group stands.")] = None,
    partition: Annotated[int | None, typer.Option(help="Only this partition.")] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Move a group that has no members; shows what would happen, then asks."""
    from penstock.delivery.lag import require_not_a_report
    from penstock.kafka import groups, topics
    from penstock.kafka.positions import Position

    require_not_a_report(name)
    if [to is not None, by is not None, like is not None].count(True) != 1:
        raise BadInput("say where to: exactly one of --to, --by and --like")
    target = Position.parse(to) if to is not None else None
    admin = session(context).admin()
    chosen = topic or sorted({each for each, _ in groups.committed(admin, like or name)})
    if not chosen:
        raise NotFound(f"group '{name}' has no positions", fix="Name a topic with --topic")
    partitions = [(each, number) for each in chosen for number in range(topics.partition_count(admin, each))]
    partitions = [each for each in partitions if partition in (None, each[1])]
    if not partitions:
        raise NotFound(f"there is no partition {partition} in {', '.join(chosen)}")
    steps = groups.plan_reset(admin, name, partitions, to=target, by=by, like=like)
    print_rows(steps, as_json=as_json)
    confirm(f"Move group '{name}'?", yes=yes)
    groups.reset(admin, name, steps)
    say(f"group '{name}' moved in {len(steps)} partition(s)")


@app.command()
def delete(context: typer.Context, name: Name, yes: Yes = False, as_json: Json = False) -> None:
    """Forget a group and its positions."""
    from penstock.delivery.lag import pipeline_of
    from penstock.kafka import groups

    pipeline = pipeline_of(name)
    if pipeline and (session(context).settings.home / "pipelines" / pipeline).exists():
        raise Conflict(
            f"group '{name}' holds positions of pipeline '{pipeline}'",
            safe="Nothing was changed",
            fix="Delete the pipeline's folder in .penstock/pipelines first, if it is to be forgotten",
        )
    admin = session(context).admin()
    detail = groups.describe(admin, name)
    say(f"group '{name}' has {len(detail.members)} member(s) and positions in {len(detail.partitions)} partition(s)")
    confirm("Forget it?", yes=yes)
    groups.delete(admin, name)
    say(f"group '{name}' deleted")
    if as_json:
        print_json({"group": name, "deleted": True})
