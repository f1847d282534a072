"""penstock cdc: capturing the changes of database tables."""

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.connect import client_for
from penstock.cli.output import Json, Yes, confirm, print_json, print_table, say
from penstock.cli.progress import bar
from penstock.cli.session import session
from penstock.config.complaints import in_words
from penstock.errors import BadInput, Conflict, PenstockError
from penstock.wording import plural

if TYPE_CHECKING:
    from penstock.connect.cdc import Capture, Captures

app = typer.Typer(help="Capture the changes of database tables.", no_args_is_help=True)
add_app = typer.Typer(help="Begin to capture tables.", no_args_is_help=True)
app.add_typer(add_app, name="add")
Name = Annotated[str, typer.Argument(help="Name of the capture: small letters, digits and underscores.")]


def _captures(context: typer.Context) -> "Captures":
    from penstock.connect.cdc import Captures

    return Captures(session(context).settings.home, client_for(context))


@add_app.command()
def postgres(
    context: typer.Context,
    name: Name,
    database: Annotated[str, typer.Option(help="The database.")],
    tables: Annotated[list[str], typer.Option("--tables", help="A table with its schema; again for each.")],
    host: Annotated[str, typer.Option(help="Name or address of the server.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Its port.")] = 5432,
    user: Annotated[str, typer.Option(help="The user to log in as.")] = "postgres",
    password: Annotated[str | None, typer.Option(help="env:NAME or file:PATH of the password.")] = None,
    as_json: Json = False,
) -> None:
    """Capture tables of a PostgreSQL: check the database, then create publication, topics, connector and slot."""
    from pydantic import ValidationError

    from penstock.connect import postgres as database_
    from penstock.connect.cdc import DEBEZIUM_POSTGRES, NAME, Capture
    from penstock.secret import Secret
    from penstock.sinks.postgres_server import Server

    if NAME.fullmatch(name) is None:
        raise BadInput(f"'{name}' is not a valid name: lowercase letters, digits and underscores, a letter first")
    captures = _captures(context)
    captures.require_new(name)
    try:
        secret = None if password is None else Secret.parse(password)
    except ValueError as error:
        raise BadInput(f"--password: {error}", safe="Nothing was created") from None
    try:
        server = Server(host=host, port=port, database=database, user=user, password=secret)
    except ValidationError as error:
        raise BadInput(in_words(error.errors(include_input=False)[0])) from None
    listed = [each.strip() for given in tables for each in given.split(",") if each.strip()]
    capture = Capture(name=name, server=server, tables=listed)
    with server.connect() as connection:
        found = database_.capture_problems(connection, listed, capture.slot)
        for each in found:
            say(str(each))
        if found:
            raise Conflict(
                f"{plural(len(found), 'thing')} in the database"
                f" {'prevents' if len(found) == 1 else 'prevent'} capturing '{name}'",
                safe="Nothing was created",
                fix="Run the statements above, then try again",
            )
        for warning in database_.warnings(connection, listed):
            say(warning)
        capture = capture.model_copy(update={"tables": database_.named_tables(connection, listed)})
        for column in database_.generated_columns(connection, capture.tables):
            say(f"the column {column} is generated, which PostgreSQL does not log: it is not captured")
    with bar("looking for Debezium") as shown:
        _with_plugin(context, DEBEZIUM_POSTGRES, shown.describe)
        shown.describe("waiting until changes are read")
        captures.add(capture, session(context).admin())
    _warn_of_forgetful_topics(context, capture)
    made = {table: capture.topic(table) for table in capture.tables}
    if as_json:
        print_json({"name": name, "slot": capture.slot, "topics": made})
        return
    for table, topic in made.items():
        say(f"changes of {table} go to the topic {topic}")


def _warn_of_forgetful_topics(context: typer.Context, capture: "Capture") -> None:
    """Name the topics that delete changes: one that existed before, or was altered, may do so."""
    from penstock.connect.cdc import forgetful_topics

    for topic, why in forgetful_topics(capture, session(context).admin()).items():
        say(
            f"topic '{topic}' deletes changes ({why}): a mirror could not be filled from it again. Run: penstock topic"
            f" alter {topic} --cleanup delete --retention forever --retention-size unlimited"
        )


def _with_plugin(context: typer.Context, coordinates: str, on_progress: Any) -> None:
    """Make sure that the worker has a plugin; it is restarted if the plugin was missing."""
    from penstock.cli import system
    from penstock.config.local_services import folder_of
    from penstock.services import connect_plugins

    current = session(context)
    on_progress(f"fetching {coordinates}")
    if connect_plugins.ensure(coordinates, folder_of(current.settings.home, "connect"), current.settings.jars):
        system.restart(current, "connect", on_progress)


@app.command()
def status(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="The capture; all if left out.")] = None,
    as_json: Json = False,
) -> None:
    """Show captures: whether each reads, how much of its log the database keeps for it, and tables that it has lost."""
    captures = _captures(context)
    found = [captures.load(each) for each in ([name] if name else captures.names())]
    rows = [_row(context, captures, each) for each in found]
    if as_json:
        print_json(rows)
    elif not rows:
        say("nothing is captured. Begin with: penstock cdc add postgres")
    else:
        print_table(list(rows[0]), [list(each.values()) for each in rows])
    for row in rows:
        if row["not_captured"]:
            say(
                f"{row['not_captured']} is no longer captured, or not wholly: the publication of '{row['name']}' has"
                " lost it, as it does when a table is dropped and recreated, or was altered, so that it leaves changes"
                f" out. Run: penstock cdc remove {row['name']}; then add it"
            )
        if row["slot"] in {"missing", "lost"} and row["snapshot"] == "complete":  # a snapshot that restarts has none
            say(
                f"the replication slot of '{row['name']}' is {row['slot']}, and what changed since is not captured."
                f" Run: penstock cdc remove {row['name']}; then add it"
            )
    with suppress(PenstockError):  # that Kafka is away is in the rows
        for each in found:
            _warn_of_forgetful_topics(context, each)


def _snapshot(context: typer.Context, name: str) -> str:
    from penstock.connect import snapshots

    try:
        return snapshots.state(session(context).admin(), name)
    except PenstockError as error:
        return str(error.what)


def _row(context: typer.Context, captures: "Captures", capture: "Capture") -> dict[str, Any]:
    from penstock.connect.cdc import slot_status

    row: dict[str, Any] = {"name": capture.name, "tables": ", ".join(capture.tables)}
    try:
        found = captures.client.connector(capture.name)
        row |= {"connector": found.state, "tasks": found.tasks}
    except PenstockError as error:
        row |= {"connector": str(error.what), "tasks": ""}
    slot = slot_status(capture)
    return {
        **row,
        "snapshot": _snapshot(context, capture.name),
        "slot": slot.problem or slot.state,
        "wal_held_bytes": slot.wal_held_bytes,
        "lag_bytes": slot.lag_bytes,
        "not_captured": ", ".join(slot.not_captured),
    }


@app.command()
def remove(context: typer.Context, name: Name, yes: Yes = False, as_json: Json = False) -> None:
    """Stop capturing: connector, slot and publication go; topics stay."""
    captures = _captures(context)
    captures.load(name)
    confirm(f"'{name}' will no longer be captured; to begin again takes a new snapshot. Continue?", yes=yes)
    with bar(f"removing '{name}'"):
        captures.remove(name)
    if as_json:
        print_json({"name": name, "removed": True})
    else:
        say(f"'{name}' is no longer captured, and the database keeps no log for it")
