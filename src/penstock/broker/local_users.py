"""Users of a secure local cluster: a SCRAM password in Kafka, and the file beside the cluster that keeps it.

Kafka comes first in every change: what it refuses leaves the file as it was.
"""

from penstock.config import cluster_state
from penstock.config.local_connection import ADMIN_USER
from penstock.config.secrets_folder import SecretsFolder
from penstock.config.settings import Settings
from penstock.errors import BadInput, Conflict
from penstock.kafka import acls, users
from penstock.kafka.admin import Admin
from penstock.private import write_private

SHORTEST_PASSWORD = 8


def require_secure(settings: Settings) -> None:
    """Raise `Conflict` unless the cluster is one of ours that has users."""
    if settings.external is not None:
        raise Conflict("users of an external cluster are made where it is run", safe="Nothing was changed")
    known = cluster_state.load(settings.home / "broker")
    if known is None or not known.secure:
        raise Conflict(
            "this cluster has no users: it is not secure", fix="Make a secure one with: penstock up --secure"
        )


def require_not_admin(name: str) -> None:
    """Raise `Conflict` for the user by whom Penstock itself uses in the cluster."""
    if name == ADMIN_USER:
        raise Conflict(f"'{ADMIN_USER}' is the cluster's own administrator", safe="Nothing was changed")


def put(settings: Settings, admin: Admin, name: str, password: str, *, whose: str = "the password") -> None:
    """Create a user, or give an existing one a new password."""
    kept = SecretsFolder.of(settings.home / "broker").password_file(name)
    if len(password) < SHORTEST_PASSWORD:
        raise BadInput(f"{whose} is shorter than {SHORTEST_PASSWORD} characters")
    users.put(admin, name, password)
    write_private(kept, (password + "\n").encode())


def remove(settings: Settings, admin: Admin, name: str) -> None:
    """Delete a user, its permissions and its password."""
    kept = SecretsFolder.of(settings.home / "broker").password_file(name)
    permissions = acls.list_acls(admin, name)
    users.remove(admin, name)
    acls.remove(admin, permissions)
    kept.unlink(missing_ok=True)
