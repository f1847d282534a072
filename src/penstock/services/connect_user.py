"""The user by whom Connect works on a secure cluster: it may use every topic and group, and nothing else."""

from penstock.config.local_connection import local_connection
from penstock.kafka import acls, users
from penstock.kafka.acls import Acl, Resource
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.secret import Secret
from penstock.services.context import ServiceContext

CONNECT_USER = "connect"
_RIGHTS: dict[Resource, tuple[str, ...]] = {
    "topic": ("read", "write", "create", "describe", "describe_configs", "alter", "alter_configs"),
    "group": ("read", "describe"),
    "transactional_id": ("write", "describe"),
}


def worker_connection(context: ServiceContext) -> Connection:
    """Return how the worker connects to the cluster; on a secure one its user is made first, or given what it lacks."""
    if not context.secure:
        return context.connection
    admin = Admin(context.connection)
    path = context.secrets.password_file(CONNECT_USER)
    if not path.exists() or CONNECT_USER not in {each.user for each in users.list_users(admin)}:
        path = context.secrets.new_password(CONNECT_USER)
        users.put(admin, CONNECT_USER, Secret.parse(f"file:{path}").reveal())
    acls.allow(
        admin,
        [
            Acl(user=CONNECT_USER, operation=operation, resource=resource, name="*")
            for resource, operations in _RIGHTS.items()
            for operation in operations
        ],
    )
    return local_connection(context.home / "broker", CONNECT_USER)
