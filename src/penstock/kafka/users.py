"""SCRAM users of a cluster."""

from concurrent.futures import Future

from confluent_kafka.admin import (
    AclOperation,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pydantic import BaseModel, Field

from penstock.errors import NotFound, Refused
from penstock.kafka.admin import Admin
from penstock.kafka.failures import who

_ITERATIONS = 8192


class User(BaseModel, frozen=True):
    """A user that can log in."""

    user: str = Field(description="The user's name.")
    mechanisms: list[str] = Field(description="SCRAM mechanisms that the user has a password for.")


def _require(admin: Admin, operation: AclOperation, doing: str) -> None:
    """Check the permission first: librdkafka 2.16 aborts the whole process if Kafka refuses these calls."""
    future = admin.client.describe_cluster(include_authorized_operations=True, request_timeout=admin.timeout_s)
    if operation not in (admin.result(future, doing).authorized_operations or []):
        raise Refused(
            f"{who(admin.connection)} has no permission on the cluster for {doing}",
            fix="Ask for an ACL; on a local cluster, run: penstock acl allow",
        )


def put(admin: Admin, name: str, password: str) -> None:
    """Create a user, or give an existing one a new password. The password goes nowhere but to Kafka, salted."""
    _require(admin, AclOperation.ALTER, f"adding user '{name}'")
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
    change = UserScramCredentialUpsertion(name, credential, password.encode())
    futures = admin.client.alter_user_scram_credentials([change], request_timeout=admin.timeout_s)
    admin.results(futures, f"adding user '{name}'")
    admin.settle(lambda: _is_there(admin, name), f"adding user '{name}'")


def list_users(admin: Admin) -> list[User]:
    """List everybody who has a SCRAM password."""
    _require(admin, AclOperation.DESCRIBE, "listing users")
    future = admin.client.describe_user_scram_credentials(request_timeout=admin.timeout_s)
    assert isinstance(future, Future)  # noqa: S101 - without names the client gives one future for all
    found = admin.result(future, "listing users")
    return sorted(
        (
            User(
                user=name,
                mechanisms=[info.mechanism.name.replace("_", "-") for info in entry.scram_credential_infos],
            )
            for name, entry in found.items()
        ),
        key=lambda each: each.user,
    )


def remove(admin: Admin, name: str) -> None:
    """Remove a user's passwords of all mechanisms; the user cannot log in any more."""
    there = next((user for user in list_users(admin) if user.user == name), None)
    if there is None:
        raise NotFound(f"there is no user '{name}'", fix="List them with: penstock user list")
    for mechanism in there.mechanisms:  # Kafka takes one change of a user in a request
        change = UserScramCredentialDeletion(name, ScramMechanism[mechanism.replace("-", "_")])
        futures = admin.client.alter_user_scram_credentials([change], request_timeout=admin.timeout_s)
        admin.results(futures, f"removing user '{name}'")
    admin.settle(lambda: not _is_there(admin, name), f"removing user '{name}'")


def _is_there(admin: Admin, name: str) -> bool:
    return name in {user.user for user in list_users(admin)}
