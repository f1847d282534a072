"""penstock acl: who may do what."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import Json, print_json, print_rows, say
from penstock.cli.session import session
from penstock.errors import BadInput, NotFound
from penstock.wording import plural

if TYPE_CHECKING:
    from penstock.kafka.acls import Acl

app = typer.Typer(
    help="Permissions of users; a trailing * in a name matches every name with that prefix.", no_args_is_help=True
)

User = Annotated[str, typer.Argument(help="The user's name.")]
Producer = Annotated[bool, typer.Option("--producer", help="What a producer needs on the topics.")]
Consumer = Annotated[bool, typer.Option("--consumer", help="What a consumer needs on the topics and groups.")]
Operation = Annotated[list[str] | None, typer.Option(help="read, write, create, delete, alter, describe, all, ...")]
Topic = Annotated[list[str] | None, typer.Option(help="Topic, or a prefix and *.")]
Group = Annotated[list[str] | None, typer.Option(help="Group, or a prefix and *.")]
TransactionalId = Annotated[list[str] | None, typer.Option(help="Transactional id, or a prefix and *.")]
OnCluster = Annotated[bool, typer.Option("--cluster", help="The operation on the cluster itself.")]


@app.command()
def allow(
    context: typer.Context,
    user: User,
    producer: Producer = False,
    consumer: Consumer = False,
    operation: Operation = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OnCluster = False,
    as_json: Json = False,
) -> None:
    """Grant a permission; whatever is not granted is denied."""
    from penstock.kafka import acls

    wanted = _wanted(user, producer, consumer, operation, topic, group, transactional_id, cluster)
    acls.allow(session(context).admin(), wanted)
    group_of_connect = session(context).settings.connect_group
    for name in sorted({each.name for each in wanted if each.lets_write_to_own(group_of_connect)}):
        say(
            f"warning: '{name}' includes topics of Kafka's, Connect's or Penstock's own: '{user}' may forge dead"
            " letters there and, where Connect runs, make connectors, which read and write your files"
        )
    print_rows(wanted, as_json=as_json)


@app.command("list")
def list_(
    context: typer.Context,
    user: Annotated[str | None, typer.Option(help="Only this user's.")] = None,
    as_json: Json = False,
) -> None:
    """List permissions."""
    from penstock.kafka import acls

    print_rows(acls.list_acls(session(context).admin(), user), as_json=as_json, empty="no permissions")


@app.command()
def remove(
    context: typer.Context,
    user: User,
    producer: Producer = False,
    consumer: Consumer = False,
    operation: Operation = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OnCluster = False,
    as_json: Json = False,
) -> None:
    """Remove a permission; name it as it was granted."""
    from penstock.kafka import acls

    wanted = _wanted(user, producer, consumer, operation, topic, group, transactional_id, cluster)
    count = acls.remove(session(context).admin(), wanted)
    if count == 0:
        raise NotFound(f"user '{user}' has no such permission", fix=f"See: penstock acl list --user {user}")
    say(f"{plural(count, 'permission')} removed")
    if as_json:
        print_json({"user": user, "removed": count})


def _wanted(
    user: str,
    producer: bool,
    consumer: bool,
    operations: list[str] | None,
    topics: list[str] | None,
    groups: list[str] | None,
    transactional_ids: list[str] | None,
    cluster: bool,
) -> "list[Acl]":
    from penstock.kafka import acls

    if [producer, consumer, bool(operations)].count(True) != 1:
        raise BadInput("give exactly one of --producer, --consumer and --operation")
    if producer:
        if not topics:
            raise BadInput("--producer needs --topic")
        return acls.producer_acls(user, topics, transactional_ids or [])
    if consumer:
        if not topics or not groups:
            raise BadInput("--consumer needs --topic and --group")
        return acls.consumer_acls(user, topics, groups)
    for operation in operations or []:
        if operation not in acls.OPERATIONS:
            raise BadInput(f"'{operation}' is not an operation: say one of {', '.join(acls.OPERATIONS)}")
    resources: list[tuple[acls.Resource, str]] = [("topic", name) for name in topics or []]
    resources += [("group", name) for name in groups or []]
    resources += [("transactional_id", name) for name in transactional_ids or []]
    resources += [("cluster", acls.CLUSTER_NAME)] if cluster else []
    if not resources:
        raise BadInput("give --topic, --group, --transactional-id or --cluster")
    return [
        acls.Acl(user=user, operation=operation, resource=resource, name=name)
        for resource, name in resources
        for operation in operations or []
    ]
