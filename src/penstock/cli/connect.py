"""penstock connect: the connectors of Kafka Connect."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import (
    Json,
    Yes,
    confirm,
    key_values,
    moment,
    print_json,
    print_lines,
    print_rows,
    print_table,
    say,
)
from penstock.cli.session import session
from penstock.errors import BadInput, Conflict, NotFound
from penstock.wording import plural

if TYPE_CHECKING:
    from penstock.connect.client import ConnectClient
    from penstock.connect.restarts import Restarts

app = typer.Typer(help="Connectors of Kafka Connect.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name of the connector.")]


def client_for(context: typer.Context) -> "ConnectClient":
    """Return the client of the project's worker."""
    from penstock.config.local_services import local_service
    from penstock.connect.client import ConnectClient

    return ConnectClient(local_service(session(context).settings.home, "connect"))


@app.command()
def plugins(context: typer.Context, as_json: Json = False) -> None:
    """List the kinds of connectors that the worker has."""
    found = client_for(context).plugins()
    if as_json:
        print_json(found)
    else:
        print_table(
            ["class", "type", "version"], [[each.get(k) for k in ("class", "type", "version")] for each in found]
        )


@app.command("list")
def list_(context: typer.Context, as_json: Json = False) -> None:
    """List connectors: the state of each, how many of its tasks run, and how often it failed and was started again."""
    found = client_for(context).connectors()
    counts = {name: each.count for name, each in _restarts(context).items()}
    rows = [{**each.model_dump(), "restarts": counts.get(each.name, 0)} for each in found]
    if as_json:
        print_json(rows)
    elif not found:
        say("no connectors")
    else:
        fields = ("name", "type", "state", "tasks", "restarts")
        print_table(fields, [[row[field] for field in fields] for row in rows])
        for each in found:
            if each.has_failed:
                say(f"'{each.name}' has failed: {each.cause}. See: penstock connect show {each.name}")


@app.command()
def add(
    context: typer.Context,
    name: Name,
    file: Annotated[Path | None, typer.Option("--file", help="JSON file with the settings.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting, NAME=VALUE; on top of a file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a connector, or change its settings; the worker validates them first."""
    import orjson

    config: dict[str, str] = {}
    if file is not None:
        try:
            read = orjson.loads(file.read_bytes())
        except FileNotFoundError:
            raise BadInput(f"there is no file {file}") from None
        except ValueError as error:
            raise BadInput(f"{file} is not valid JSON: {error}") from None
        inner = read.get("config", read) if isinstance(read, dict) else None
        if not isinstance(inner, dict):
            raise BadInput(f"{file} holds no settings: a JSON object belongs there")
        config = {str(key): str(value) for key, value in inner.items()}
    config |= key_values(settings or [], "--set")
    from penstock.connect.connectors import with_named_secrets

    client, home = client_for(context), session(context).settings.home
    client.put(name, with_named_secrets(name, config, home, known=client.secret_settings(config)))
    if as_json:
        print_json({"connector": name})
    else:
        say(f"connector '{name}' created. See: penstock connect show {name}")


@app.command("apply")
def apply_(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    as_json: Json = False,
) -> None:
    """Make and change connectors as penstock.yaml says; shows the plan first, and never deletes one."""
    from penstock.connect import connectors

    current = session(context)
    if current.settings.project_file is None:
        raise NotFound("there is no penstock.yaml here", fix="Write one with: penstock init")
    base, home = current.settings.project_file.parent, current.settings.home
    given = {
        name: {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}
        for name, config in current.settings.project.connectors.items()
    }
    client = client_for(context)
    wanted = {
        name: connectors.with_named_secrets(name, each, home, base, known=client.secret_settings(each))
        for name, each in given.items()
    }
    steps = connectors.plan(client, wanted)
    print_rows(steps, as_json=as_json, empty="penstock.yaml has no connectors")
    todo = [each for each in steps if each.action != "keep"]
    if dry_run or not todo:
        say("nothing to do" if not todo else f"{plural(len(todo), 'change')} planned, none made")
        return
    for each in todo:
        client.put(each.connector, wanted[each.connector])
    say(f"{plural(len(todo), 'change')} made")


@app.command()
def show(
    context: typer.Context,
    name: Name,
    trace: Annotated[bool, typer.Option("--trace", help="Print the whole trace of what has failed.")] = False,
    as_json: Json = False,
) -> None:
    """Show a connector, its settings and why it has failed; secrets are shown as they are named."""
    from penstock.connect.connectors import shown

    client = client_for(context)
    found, restarts = client.connector(name), _restarts(context).get(name)
    config = {key: shown(key, value) for key, value in client.config(name).items()}
    if as_json:
        print_json({**found.model_dump(), "config": config, "restarts": restarts})
        return
    say(f"{found.type} connector '{name}' is {found.state}, {found.tasks} tasks run")
    if trace and found.trace:
        print_lines([found.trace])
        return
    if found.trace:
        say(f"it has failed: {found.cause}. The whole trace: penstock connect show {name} --trace")
    if restarts is not None:
        say(_in_words(restarts))
    print_table(["setting", "value"], sorted(config.items()))


def _restarts(context: typer.Context) -> "dict[str, Restarts]":
    from penstock.config.local_services import folder_of
    from penstock.connect import restarts

    return restarts.load(folder_of(session(context).settings.home, "connect"))


def _in_words(restarts: "Restarts") -> str:
    times = "not yet" if restarts.count == 0 else "once" if restarts.count == 1 else f"{restarts.count} times"
    then = (
        f"the next time at {moment(restarts.again_at)}" if restarts.again_at else f"the failure was: {restarts.reason}"
    )
    return f"it failed at {moment(restarts.failed_at)} and was started again {times}; {then}"


@app.command()
def pause(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Pause a connector's tasks."""
    client_for(context).pause(name)
    _done(name, "is paused", {"paused": True}, as_json=as_json)


@app.command()
def resume(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Resume a connector that was paused or stopped."""
    client_for(context).resume(name)
    _done(name, "is resumed", {"resumed": True}, as_json=as_json)


@app.command()
def stop(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Stop a connector's tasks; settings and offsets stay."""
    client_for(context).stop(name)
    _done(name, "is stopped", {"stopped": True}, as_json=as_json)


def _done(name: str, words: str, said: dict[str, bool], *, as_json: bool) -> None:
    if as_json:
        print_json({"connector": name, **said})
    else:
        say(f"connector '{name}' {words}")


@app.command()
def restart(
    context: typer.Context,
    name: Name,
    failed: Annotated[bool, typer.Option("--failed", help="Only what has failed.")] = False,
    as_json: Json = False,
) -> None:
    """Start a connector and its tasks again."""
    client = client_for(context)
    if (state := client.connector(name).state) in {"STOPPED", "PAUSED"}:
        raise Conflict(
            f"connector '{name}' is {state.lower()}",
            safe="It was left as it is",
            fix=f"Run: penstock connect resume {name}",
        )
    client.restart(name, only_failed=failed)
    _done(name, "is restarted", {"restarted": True}, as_json=as_json)


@app.command()
def offsets(
    context: typer.Context,
    name: Name,
    reset: Annotated[bool, typer.Option("--reset", help="Let a stopped connector start from the beginning.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Show how far a connector has got."""
    client = client_for(context)
    if reset:
        if (state := client.connector(name).state) != "STOPPED":
            raise Conflict(
                f"connector '{name}' is {state.lower()}, and only a stopped one can start over",
                safe="Nothing was changed",
                fix=f"Run: penstock connect stop {name}",
            )
        confirm(f"Connector '{name}' will start over: its offsets are deleted. Continue?", yes=yes)
        client.reset_offsets(name)
        _done(name, "starts over when it is resumed", {"reset": True}, as_json=as_json)
        return
    found = client.offsets(name)
    if as_json:
        print_json(found)
    elif not found:
        say(f"connector '{name}' has no offsets yet")
    else:
        print_table(["partition", "offset"], [[str(each["partition"]), str(each["offset"])] for each in found])


@app.command()
def remove(context: typer.Context, name: Name, yes: Yes = False, as_json: Json = False) -> None:
    """Delete a connector; its topics stay."""
    from penstock.connect.cdc import Captures
    from penstock.connect.connectors import forget_secrets

    client, home = client_for(context), session(context).settings.home
    client.connector(name)
    if name in Captures(home, client).names():
        raise Conflict(
            f"connector '{name}' captures a database, which would keep its log for it forever",
            safe="Nothing was changed",
            fix=f"Run: penstock cdc remove {name}",
        )
    confirm(f"Connector '{name}' will be deleted. Continue?", yes=yes)
    client.remove(name)
    forget_secrets(name, home)
    _done(name, "is deleted", {"deleted": True}, as_json=as_json)


@app.command(hidden=True)
def watch(context: typer.Context) -> None:
    """Start again what has failed, until a signal ends it: `penstock up` runs this beside the worker."""
    from penstock.connect.watch import run

    current = session(context)
    run(current.settings.home, current.admin)
