"""What of Kafka's users, access rules and quotas a console may change: nothing that would lock it out.

For that there is the command line, which can act as another user with `--user`.
"""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from penstock.broker.local_users import require_not_admin
from penstock.config.local_connection import ADMIN_USER
from penstock.console.service import Console
from penstock.errors import Conflict
from penstock.kafka.acls import Acl
from penstock.kafka.security import Plain, Scram
from penstock.services.connect_user import CONNECT_USER

Principal = Annotated[str, Field(max_length=255, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]+$")]
"""The name of a user of Kafka, who may have been made elsewhere, or of what a rule is about."""
_EVERYBODY = "*"


def own_user(console: Console) -> str | None:
    """Return the user of Kafka that the console works as; None if it is not known by a name."""
    security = console.connection().security
    return security.username if isinstance(security, Plain | Scram) else None


def require_clients_known(console: Console) -> None:
    """Raise `Conflict` if Kafka cannot tell its clients apart: rules and quotas of users would do nothing."""
    if not console.connection().knows_clients:
        raise Conflict(
            "this cluster has no users: it is not secure, so everybody may do everything",
            safe="Nothing was changed",
            fix="Make a secure one with: penstock up --secure",
        )


def require_not_own(console: Console, user: str | None) -> None:
    """Raise `Conflict` for the user that the console works as, and for those that Penstock made for itself."""
    if user is not None and user == own_user(console):
        raise Conflict(
            f"the console itself works as '{user}': it would lock itself out",
            safe="Nothing was changed",
            fix="Use the command line: penstock user, penstock acl",
        )
    if console.settings.external is None and user is not None:
        require_not_admin(user)
        if user == CONNECT_USER:
            raise Conflict(f"Kafka Connect works as '{user}', and would be locked out", safe="Nothing was changed")


def require_not_relied_on(console: Console, acls: Iterable[Acl]) -> None:
    """Raise `Conflict` for rules that let the console in; no rule can keep the administrator of a local cluster out."""
    own = own_user(console)
    if console.settings.external is None and own == ADMIN_USER:
        return
    for acl in acls:
        if acl.user in {own, _EVERYBODY}:
            whose = "everybody, and so the console" if acl.user == _EVERYBODY else f"'{own}', as whom the console works"
            raise Conflict(
                f"this rule is about {whose}: it could lock itself out",
                safe="Nothing was changed",
                fix="Use the command line: penstock acl remove",
            )
