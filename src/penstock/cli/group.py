"""penstock group: who reads, how far behind they are, and resetting them."""

from typing import Annotated

import typer

from penstock.cli import completion
from penstock.cli.output import Json, Yes, confirm, print_json, print_rows, print_table, say
from penstock.cli.session import session
from penstock.errors import BadInput
from penstock.wording import plural

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
    by: Annotated[int | None, typer.Option(help="Move forward by this many records, or back if negative.")] = None,
    like: Annotated[str | None, typer.Option(help="To the positions of this other group.")] = None,
    partition: Annotated[int | None, typer.Option(help="Only this partition.")] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Move a group that has no members; shows what would happen, then asks."""
    from penstock.delivery.lag import require_not_a_report
    from penstock.kafka import groups
    from penstock.kafka.positions import Position

    require_not_a_report(name)
    if [to is not None, by is not None, like is not None].count(True) != 1:
        raise BadInput(
            "give exactly one of --to, --by and --like",
            safe="Nothing was changed",
            fix=f"From the beginning again: penstock group reset {name} --to earliest; ten records back: --by -10",
        )
    target = Position.parse(to) if to is not None else None
    admin = session(context).admin()
    if like is None and not groups.is_known(admin, name):
        if not topic:
            raise groups.unknown(admin, name)
        say(f"there is no group '{name}' yet: it will begin there, once a consumer of that name starts")
    groups.require_no_members(admin, name)
    partitions = groups.partitions_to_reset(admin, like or name, topic or [], partition)
    steps = groups.plan_reset(admin, name, partitions, to=target, by=by, like=like)
    print_rows(steps, as_json=as_json)
    confirm(f"Move group '{name}'?", yes=yes)
    groups.reset(admin, name, steps)
    say(f"group '{name}' moved in {plural(len(steps), 'partition')}")


@app.command()
def delete(context: typer.Context, name: Name, yes: Yes = False, as_json: Json = False) -> None:
    """Delete a group and its positions."""
    from penstock.kafka import groups
    from penstock.operate.belonging import require_no_pipeline

    require_no_pipeline(session(context).settings.home, name)
    admin = session(context).admin()
    detail = groups.describe(admin, name)
    say(
        f"group '{name}' has {plural(len(detail.members), 'member')} and"
        f" positions in {plural(len(detail.partitions), 'partition')}"
    )
    confirm("Delete it?", yes=yes)
    groups.delete(admin, name)
    say(f"group '{name}' deleted")
    if as_json:
        print_json({"group": name, "deleted": True})
