"""penstock user: SCRAM users of a secure local cluster."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import Json, Yes, confirm, print_json, print_rows, say
from penstock.cli.session import session
from penstock.wording import plural

app = typer.Typer(help="Users of a secure cluster.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The user's name.")]


@app.command()
def add(
    context: typer.Context,
    name: Name,
    password_file: Annotated[Path | None, typer.Option(help="File with the password; generated if left out.")] = None,
    as_json: Json = False,
) -> None:
    """Create a user, or give an existing one a new password. It has no permissions until `penstock acl allow`."""
    from penstock.broker import local_users
    from penstock.config.secrets_folder import SecretsFolder
    from penstock.kafka import users
    from penstock.secret import Secret

    current = session(context)
    local_users.require_secure(current.settings)
    local_users.require_not_admin(name)
    files = SecretsFolder.of(current.settings.home / "broker")
    kept = files.password_file(name)
    if password_file is not None:
        password = Secret.parse(f"file:{password_file}").reveal()
        local_users.put(current.settings, current.admin(), name, password, whose=f"the password in {password_file}")
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
    from penstock.broker import local_users
    from penstock.kafka import users

    current = session(context)
    local_users.require_secure(current.settings)
    print_rows(users.list_users(current.admin()), as_json=as_json, empty="no users")


@app.command()
def remove(context: typer.Context, name: Name, yes: Yes = False, as_json: Json = False) -> None:
    """Delete a user and its permissions."""
    from penstock.broker import local_users
    from penstock.config.secrets_folder import SecretsFolder
    from penstock.kafka import acls

    current = session(context)
    local_users.require_secure(current.settings)
    local_users.require_not_admin(name)
    SecretsFolder.of(current.settings.home / "broker").password_file(name)
    admin = current.admin()
    permissions = acls.list_acls(admin, name)
    say(f"user '{name}' has {plural(len(permissions), 'permission')}")
    confirm("Remove the user and its permissions?", yes=yes)
    local_users.remove(current.settings, admin, name)
    say(f"user '{name}' removed")
    if as_json:
        print_json({"user": name, "removed": True})
