"""penstock console: Kafka, pipelines and dead letters in a browser, and the users that it lets in."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from penstock.cli.output import Json, print_json, print_rows, say
from penstock.cli.passwords import put_password
from penstock.cli.session import session
from penstock.extras import require

if TYPE_CHECKING:
    from penstock.console.users import Users

app = typer.Typer(invoke_without_command=True)
users = typer.Typer(help="Users of the console.", no_args_is_help=True)
app.add_typer(users, name="user")
Name = Annotated[str, typer.Argument(help="Name of the user.")]
Role = Literal["viewer", "operator", "admin"]


@app.callback()
def console(
    context: typer.Context,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any address but the loopback requires sign-in.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            show_default="8080, or a free one where that is taken",
            help="Port to listen on; 0 takes a free one.",
        ),
    ] = None,
    sign_in: Annotated[
        bool | None,
        typer.Option(
            "--sign-in/--no-sign-in",
            show_default="where Kafka, or another server, asks the console for a login",
            help="Require sign-in on this machine, too.",
        ),
    ] = None,
    role: Annotated[Role, typer.Option(help="Role of those who need not sign in.")] = "admin",
    downloads: Annotated[
        bool, typer.Option("--downloads/--no-downloads", help="Whether records can be downloaded as a file.")
    ] = True,
    certificate: Annotated[Path | None, typer.Option(help="Certificate (PEM), to serve HTTPS.")] = None,
    key: Annotated[Path | None, typer.Option(help="Key of the certificate (PEM).")] = None,
) -> None:
    """Show and control Kafka, pipelines and dead letters in a browser and by REST, until Ctrl-C."""
    if context.invoked_subcommand is not None:
        return
    require("console", "the console")
    from penstock.console.serve import ConsoleOptions, serve

    current = session(context)
    options = ConsoleOptions(
        host=host, port=port, sign_in=sign_in, role=role, downloads=downloads, certificate=certificate, key=key
    )
    serve(
        current.settings,
        current.arguments(),
        options,
        ready=lambda address: say(f"console at {address}; stop with Ctrl-C"),
        warn=lambda text: say(f"warning: {text}"),
    )


@users.command()
def add(
    context: typer.Context,
    name: Name,
    role: Annotated[
        Role, typer.Option(help="viewer: read; operator: also change what can be undone; admin: also delete.")
    ] = "viewer",
    password_file: Annotated[Path | None, typer.Option(help="File with the password; generated if left out.")] = None,
    as_json: Json = False,
) -> None:
    """Add a user, or change a user's password and role."""
    known, folder = _users(context)
    kept = put_password(folder, name, password_file, lambda password: known.put(name, password, role))
    say(f"user '{name}' may sign in as {role} with the password in {kept}")
    if as_json:
        print_json({"user": name, "role": role, "password_file": str(kept)})


@users.command("list")
def list_(context: typer.Context, as_json: Json = False) -> None:
    """List the users with their roles."""
    print_rows(_users(context)[0].list(), as_json=as_json, empty="no users")


@users.command()
def remove(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Remove a user, whose sessions end at once."""
    known, folder = _users(context)
    known.remove(name)
    (folder / "passwords" / name).unlink(missing_ok=True)
    say(f"user '{name}' may not sign in any more")
    if as_json:
        print_json({"user": name, "removed": True})


def _users(context: typer.Context) -> "tuple[Users, Path]":
    require("console", "the console")
    from penstock.console.users import Users

    folder = session(context).settings.home / "console"
    return Users(folder), folder
