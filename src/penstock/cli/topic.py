"""penstock topic: creating, listing, changing, emptying and deleting topics, moving their partitions."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import completion
from penstock.cli.output import Json, Yes, confirm, key_values, print_json, print_rows, print_table, say
from penstock.cli.progress import bar
from penstock.cli.session import session
from penstock.config.complaints import in_words
from penstock.errors import BadInput, NotFound
from penstock.wording import plural

if TYPE_CHECKING:
    from penstock.kafka.topic_spec import TopicSpec

app = typer.Typer(help="Topics.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The topic's name.", autocompletion=completion.topics)]
Retention = Annotated[str | None, typer.Option(help="How long records are kept: 7d, 12h, forever.")]
RetentionSize = Annotated[str | None, typer.Option(help="Bytes kept per partition: 1GB, unlimited.")]
Cleanup = Annotated[str | None, typer.Option(help="delete, compact or both.")]
Config = Annotated[list[str] | None, typer.Option(help="Further setting, NAME=VALUE by Kafka's names.")]


@app.command("list")
def list_(
    context: typer.Context,
    internal: Annotated[bool, typer.Option("--internal", help="Also Kafka's own.")] = False,
    as_json: Json = False,
) -> None:
    """List topics."""
    from penstock.kafka import topics

    print_rows(topics.list_topics(session(context).admin(), internal=internal), as_json=as_json, empty="no topics")


@app.command()
def tail(
    context: typer.Context,
    name: Name,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="Start with this many of each partition's last records.")
    ] = 10,
    as_json: Json = False,
) -> None:
    """Print a topic's last records, and go on as new ones arrive, until Ctrl-C; joins no group."""
    from penstock.cli.consume import consume

    consume(context, name, tail=lines or None, from_=None if lines else "latest", follow=True, as_json=as_json)


@app.command()
def describe(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Show a topic's id, partitions, leaders, replicas in sync, offsets and settings."""
    from penstock.kafka import topics

    detail = topics.describe(session(context).admin(), name)
    if as_json:
        print_json(detail)
        return
    print_table(["topic", "topic_id", "partitions"], [[detail.topic, detail.topic_id, len(detail.partitions)]])
    print_rows(detail.partitions, as_json=False)
    if detail.config:
        print_table(["setting", "value"], list(detail.config.items()))


@app.command()
def create(
    context: typer.Context,
    name: Name,
    partitions: Annotated[int, typer.Option(min=1, help="Number of partitions.")] = 1,
    replication: Annotated[int | None, typer.Option(min=1, help="Replicas of each partition.")] = None,
    retention: Retention = None,
    retention_size: RetentionSize = None,
    cleanup: Cleanup = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Create a topic."""
    from penstock.kafka import topics

    spec = _spec(
        partitions=partitions,
        replication=replication,
        retention=retention,
        size=retention_size,
        cleanup=cleanup,
        config=config,
    )
    topics.create(session(context).admin(), name, spec)
    say(f"topic '{name}' created with {plural(partitions, 'partition')}")
    if as_json:
        print_json({"topic": name, "partitions": partitions})


@app.command()
def alter(
    context: typer.Context,
    name: Name,
    retention: Retention = None,
    retention_size: RetentionSize = None,
    cleanup: Cleanup = None,
    config: Config = None,
    unset: Annotated[list[str] | None, typer.Option(help="Reset this setting to its default.")] = None,
    as_json: Json = False,
) -> None:
    """Change a topic's settings."""
    from penstock.kafka import topics

    spec = _spec(retention=retention, size=retention_size, cleanup=cleanup, config=config)
    changes: dict[str, str | None] = {**spec.kafka_config(), **dict.fromkeys(unset or [])}
    if not changes:
        raise BadInput("nothing to change", fix="Give --retention, --retention-size, --cleanup, --config or --unset")
    topics.alter_config(session(context).admin(), name, changes)
    say(f"topic '{name}' changed")
    if as_json:
        print_json({"topic": name, "changed": changes})


@app.command()
def add_partitions(
    context: typer.Context,
    name: Name,
    total: Annotated[int, typer.Argument(min=1, help="How many it should have.")],
    as_json: Json = False,
) -> None:
    """Add partitions to a topic; keys map to other partitions from then on."""
    from penstock.kafka import topics

    topics.add_partitions(session(context).admin(), name, total)
    say(f"topic '{name}' has {total} partitions; order per key holds from here on, not across this change")
    if as_json:
        print_json({"topic": name, "partitions": total})


@app.command()
def delete(context: typer.Context, name: Name, yes: Yes = False, as_json: Json = False) -> None:
    """Delete a topic with all its records."""
    from penstock.kafka import topics

    admin = session(context).admin()
    records = sum((part.end or 0) - (part.start or 0) for part in topics.describe(admin, name).partitions)
    say(f"topic '{name}' holds up to {records:,} records; deleting cannot be undone")
    confirm("Delete it?", yes=yes)
    topics.delete(admin, name)
    say(f"topic '{name}' deleted")
    if as_json:
        print_json({"topic": name, "records": records, "deleted": True})


@app.command()
def purge(
    context: typer.Context,
    name: Name,
    partition: Annotated[int | None, typer.Option(help="Only this partition.")] = None,
    before: Annotated[int | None, typer.Option(help="Only records before this offset; needs --partition.")] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete records and keep the topic."""
    from penstock.kafka import topics

    if before is not None and partition is None:
        raise BadInput("--before needs --partition: offsets count within one")
    admin = session(context).admin()
    targets, records = topics.plan_purge(admin, name, partition, before)
    say(f"up to {records:,} records of '{name}' will be deleted; that cannot be undone")
    confirm("Delete them?", yes=yes)
    topics.purge(admin, name, targets)
    say("purged")
    if as_json:
        print_json({"topic": name, "before": targets, "records": records, "purged": True})


@app.command("apply")
def apply_(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Create and change topics as penstock.yaml says; shows the plan first, and never deletes a topic."""
    from penstock.kafka import apply

    current = session(context)
    wanted = current.settings.project.topics
    if current.settings.project_file is None:
        raise NotFound("there is no penstock.yaml here", fix="Write one with: penstock init")
    admin = current.admin()
    changes = apply.plan(admin, wanted)
    print_rows(changes, as_json=True) if as_json else print_table(
        ["topic", "action", "detail"], [[change.topic, change.action, change.detail] for change in changes]
    )
    todo = [change for change in changes if change.action != "keep"]
    if dry_run or not todo:
        say("nothing to do" if not todo else f"{plural(len(todo), 'change')} planned, none made")
        return
    risky = [change.topic for change in todo if change.deletes_records]
    if risky:
        confirm(f"Records of {', '.join(risky)} may be deleted by the new settings. Continue?", yes=yes)
    apply.carry_out(admin, todo, wanted)
    say(f"{plural(len(todo), 'change')} made")


@app.command()
def rebalance(
    context: typer.Context,
    topic: Annotated[list[str] | None, typer.Option(help="Only this topic; may be given several times.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Spread partitions evenly over the nodes with Kafka's own tool; plan first, no record lost."""
    from penstock.broker import rebalance
    from penstock.kafka import topics

    current = session(context)
    admin = current.admin()
    for name in topic or []:
        topics.partition_count(admin, name)
    classpath = current.cluster().classpath()
    moves = rebalance.plan(admin, classpath, topics=topic or [])
    print_rows(moves, as_json=as_json, empty="every node is evenly used: nothing to move")
    if dry_run or not moves:
        return
    confirm(f"Move {plural(len(moves), 'partition')}?", yes=yes)
    with bar(f"moving {plural(len(moves), 'partition')}") as shown:
        rebalance.execute(admin, moves, classpath, shown.update)
    say(f"{plural(len(moves), 'partition')} moved, every replica in sync")


def _spec(
    *,
    partitions: int | None = None,
    replication: int | None = None,
    retention: str | None,
    size: str | None,
    cleanup: str | None,
    config: list[str] | None,
) -> "TopicSpec":
    from pydantic import ValidationError

    from penstock.kafka.topic_spec import NAMED, TopicSpec

    settings = key_values(config or [], "--config")
    for name in set(settings) & set(NAMED):
        option = f"--{NAMED[name].replace('_', '-')}"
        raise BadInput(f"--config: '{name}' has an option of its own", fix=f"Say {option} instead")
    given = {
        "partitions": partitions,
        "replication": replication,
        "retention": retention,
        "retention_size": size,
        "cleanup": cleanup,
        "config": settings,
    }
    try:
        return TopicSpec.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = f"--{str(problem['loc'][0]).replace('_', '-')}: " if problem["loc"] else ""
        raise BadInput(where + in_words(problem)) from None
