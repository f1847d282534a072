"""penstock user: SCRAM users of a secure local cluster."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import Json, Yes, confirm, print_json, print_rows, say
from penstock.cli.session import Session, session
from penstock.errors import BadInput, Conflict

app = typer.Typer(help="Users of a secure cluster.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The user's name.")]
_SHORTEST_PASSWORD = 8


@app.command()
def add(
    context: typer.Context,
    name: Name,
    password_file: Annotated[
        Path | None, typer.Option(help="File with the password; one is made up if left out.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a user, or give an old one a new password. It may do nothing until `penstock acl allow`."""
    from penstock.config.local_connection import ADMIN_USER
    from penstock.config.secrets_folder import SecretsFolder
    from penstock.kafka import users
    from penstock.private import write_private
    from penstock.secret import Secret

    current = session(context)
    _require_secure(current)
    if name == ADMIN_USER:
        raise Conflict(f"'{ADMIN_USER}' is the cluster's own administrator", safe="Nothing was changed")
    files = SecretsFolder.of(current.settings.home / "broker")
    kept = files.password_file(name)
    if password_file is not None:
        password = Secret.parse(f"file:{password_file}").reveal()
        if len(password) < _SHORTEST_PASSWORD:
            raise BadInput(f"the password in {password_file} is shorter than {_SHORTEST_PASSWORD} characters")
        users.put(current.admin(), name, password)
        write_private(kept, (password + "\n").encode())
    else:
        admin = current.admin()
        files.new_password(name)
        users.put(admin, name, Secret.parse(f"file:{kept}").reveal())
    say(
        f"user '{name}' made; password in {kept}, CA in {files.ca_pem};"
        f" next: penstock acl allow {name} --producer --topic TOPIC"
    )
    if as_json:
        print_json(
            {
                "user": name,
                "mechanism": "SCRAM-SHA-512",
                "password_file": str(kept),
                "ca_file": str(files.ca_pem),
            }
        )


@app.command("list")
def list_(context: typer.Context, as_json: Json = False) -> None:
    """List users."""
    from penstock.kafka import users

    current = session(context)
    _require_secure(current)
    print_rows(users.list_users(current.admin()), as_json=as_json, empty="no users")


@app.command()
def remove(context: typer.Context, name: Name, yes: Yes = False, as_json: Json = False) -> None:
    """Take away a user's login and permissions."""
    from penstock.config.local_connection import ADMIN_USER
    from penstock.config.secrets_folder import SecretsFolder
    from penstock.kafka import acls, users

    current = session(context)
    _require_secure(current)
    if name == ADMIN_USER:
        raise Conflict(f"'{ADMIN_USER}' is the cluster's own administrator", safe="Nothing was changed")
    kept = SecretsFolder.of(current.settings.home / "broker").password_file(name)
    admin = current.admin()
    permissions = acls.list_acls(admin, name)
    say(f"user '{name}' has {len(permissions)} permission(s)")
    confirm("Remove the user and its permissions?", yes=yes)
    users.remove(admin, name)
    acls.remove(admin, permissions)
    kept.unlink(missing_ok=True)
    say(f"user '{name}' removed")
    if as_json:
        print_json({"user": name, "removed": True})


def _require_secure(current: Session) -> None:
    from penstock.config import cluster_state as state

    if current.settings.external is not None:
        raise Conflict("users of an external cluster are made where it is run", safe="Nothing was changed")
    known = state.load(current.settings.home / "broker")
    if known is None or not known.secure:
        raise Conflict(
            "this cluster has no users: it is not secure", fix="Make a secure one with: penstock up --secure"
        )
