"""penstock lineage serve, and the users that it lets in."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.lineage.common import CaOption, PasswordOption, StoreOption, store_address
from penstock.cli.output import Json, print_json, say
from penstock.cli.passwords import put_password
from penstock.cli.session import session
from penstock.extras import require

users = typer.Typer(help="Users of the lineage service.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name of the user.")]


def serve(
    context: typer.Context,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any address but the loopback requires sign-in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    sign_in: Annotated[bool, typer.Option("--sign-in", help="Require sign-in on this machine, too.")] = False,
    oidc_file: Annotated[
        Path | None, typer.Option(help="YAML file about an OpenID provider, by which people sign in.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="Certificate (PEM), to serve HTTPS.")] = None,
    key: Annotated[Path | None, typer.Option(help="Key of the certificate (PEM).")] = None,
    store: StoreOption = "",
    password: PasswordOption = "",
    ca_file: CaOption = "",
) -> None:
    """Answer questions about lineage over REST; until Ctrl-C. /openapi.json describes it."""
    address = store_address(context, store, password, ca_file)
    from penstock.lineage.api.serve import ServeOptions
    from penstock.lineage.api.serve import serve as run

    options = ServeOptions(host=host, port=port, sign_in=sign_in, oidc_file=oidc_file, certificate=certificate, key=key)
    run(
        address,
        _folder(context),
        options,
        ready=lambda url: say(f"lineage at {url}/v1, from {address}; stop with Ctrl-C"),
        warn=lambda text: say(f"warning: {text}"),
    )


@users.command()
def add(
    context: typer.Context,
    name: Name,
    password_file: Annotated[Path | None, typer.Option(help="File with the password; generated if left out.")] = None,
    as_json: Json = False,
) -> None:
    """Add a user, or change a user's password."""
    from penstock.lineage.sign_in.passwords import UsersFile

    folder = _folder(context)
    known = UsersFile.of(folder)
    kept = put_password(folder, name, password_file, lambda password: known.put(name, password))
    say(f"user '{name}' may sign in with the password in {kept}")
    if as_json:
        print_json({"user": name, "password_file": str(kept)})


@users.command("list")
def list_(context: typer.Context, as_json: Json = False) -> None:
    """List the users."""
    from penstock.lineage.sign_in.passwords import UsersFile

    names = UsersFile.of(_folder(context)).names()
    if as_json:
        print_json(names)
    elif not names:
        say("no users")
    else:
        from penstock.cli.output import print_lines

        print_lines(names)


@users.command()
def remove(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Remove a user and all of the user's tokens."""
    from penstock.lineage.sign_in.passwords import UsersFile

    folder = _folder(context)
    UsersFile.of(folder).remove(name)
    (folder / "passwords" / name).unlink(missing_ok=True)
    say(f"user '{name}' may not sign in any more, and their tokens have ended")
    if as_json:
        print_json({"user": name, "removed": True})


def _folder(context: typer.Context) -> Path:
    """Return where users and the key of tokens are."""
    require("lineage", "penstock lineage")
    return session(context).settings.home / "lineage"
