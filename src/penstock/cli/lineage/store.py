"""The lineage store: filling it, migrating it, cleaning it."""

import datetime
from typing import Annotated, Literal

import typer

from penstock.cli.lineage.common import CaOption, PasswordOption, StoreOption, store_address
from penstock.cli.output import Json, print_json, print_table, say
from penstock.cli.pipeline.common import Master
from penstock.cli.pipeline.run import start as start_pipeline
from penstock.cli.session import session
from penstock.errors import BadInput
from penstock.wording import plural

_PARTITIONS = 4
"""Of a topic that is not there, as the gateway makes it."""


def start(
    context: typer.Context,
    topic: Annotated[
        list[str] | None,
        typer.Option(help="Topic of the events; may be repeated.", show_default="input.runs"),
    ] = None,
    pattern: Annotated[str, typer.Option(help="Instead of topics: a regular expression of their whole names.")] = "",
    store: StoreOption = "",
    password: PasswordOption = "",
    ca_file: CaOption = "",
    partition_by: Annotated[
        Literal["day", "month", "year"] | None,
        typer.Option(help="How PostgreSQL's tables are partitioned, when the store is made.", show_default="month"),
    ] = None,
    max_events: Annotated[int | None, typer.Option(min=1, help="Events a batch, at most.")] = None,
    max_bytes: Annotated[str | None, typer.Option(help="Bytes a batch, roughly, such as 200MB.")] = None,
    max_wait: Annotated[str | None, typer.Option(help="How long an event may wait for others, such as 200ms.")] = None,
    master: Master = "local[*,4]",
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until it runs, or has failed; --no-wait for scripts.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Fill the lineage store from Kafka, in the background: a pipeline named lineage, as any other."""
    from penstock.kafka import topics
    from penstock.kafka.admin import Admin
    from penstock.kafka.topic_spec import TopicSpec
    from penstock.lineage import pipeline_file
    from penstock.lineage.gateway.options import LINEAGE_TOPIC

    if topic and pattern:
        raise BadInput("give --topic or --pattern, not both")
    address = store_address(context, store, password, ca_file, partition_by=partition_by)
    batch = {"max_events": max_events, "max_bytes": max_bytes, "max_wait": max_wait}
    settings = session(context).settings
    wanted = [] if pattern else topic or [LINEAGE_TOPIC]
    for each in wanted:
        topics.ensure(Admin(settings.connection()), each, TopicSpec(partitions=_PARTITIONS))
    file = pipeline_file.write(settings.home, address, topics=wanted, pattern=pattern or None, batch=batch)
    start_pipeline(context, file, master, wait, as_json=as_json)


def migrate(
    context: typer.Context, store: StoreOption = "", password: PasswordOption = "", ca_file: CaOption = ""
) -> None:
    """Make the lineage store, or bring its schema up to date."""
    address = store_address(context, store, password, ca_file)
    from penstock.lineage.store.database import head
    from penstock.lineage.store.database import migrate as bring_up_to_date

    done = bring_up_to_date(address)
    say(f"the lineage store {address} {'has' if done else 'had'} the schema {head()}{'' if done else ' already'}")


def clean(
    context: typer.Context,
    keep: Annotated[str, typer.Option(help="How much of the past stays, such as 90d.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    store: StoreOption = "",
    password: PasswordOption = "",
    ca_file: CaOption = "",
    as_json: Json = False,
) -> None:
    """Remove runs, operations, reads and writes that ended longer ago than --keep; whatever still runs stays."""
    from penstock.clock import clock
    from penstock.quantities import parse_duration_ms

    try:
        keep_ms = parse_duration_ms(keep)
    except ValueError as error:
        raise BadInput(f"--keep: {error}") from None
    if keep_ms <= 0:
        raise BadInput("--keep is how much of the past stays, such as 90d")
    try:
        border = clock().now() - datetime.timedelta(milliseconds=keep_ms)
    except OverflowError:
        raise BadInput(f"--keep {keep} reaches beyond the calendar") from None
    address = store_address(context, store, password, ca_file)
    from penstock.lineage.store.cleaning import clean as remove

    cleaned = remove(address, border, dry_run=dry_run)
    if as_json:
        print_json({"border": border, "dry_run": dry_run, "tables": [vars(each) for each in cleaned]})
        return
    rows = [[each.table, each.rows, ", ".join(each.partitions)] for each in cleaned]
    print_table(["table", "rows", "whole partitions"], rows)
    total = plural(sum(each.rows for each in cleaned), "row")
    say(f"{total} from before {border:%Y-%m-%d %H:%M} UTC {'would go' if dry_run else 'are gone'}")
