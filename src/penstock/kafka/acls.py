"""Who may do what: ACLs, with presets for producers and consumers."""

from collections.abc import Iterable
from typing import Any, Literal, get_args

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from pydantic import BaseModel, Field

from penstock.kafka.admin import Admin
from penstock.kafka.topic_spec import includes_own

Resource = Literal["topic", "group", "cluster", "transactional_id"]
Operation = Literal[
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "describe_configs",
    "alter_configs",
    "all",
]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)

_RESOURCES: dict[str, ResourceType] = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.BROKER,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
}
_RESOURCE_NAMES = {kind: name for name, kind in _RESOURCES.items()}
CLUSTER_NAME = "kafka-cluster"


class Acl(BaseModel, frozen=True):
    """One permission. A trailing `*` in `name` matches every name with that prefix."""

    user: str = Field(description="Who may.")
    operation: str = Field(description="May do what.")
    resource: Resource = Field(description="To which kind of thing.")
    name: str = Field(description="To which one; `orders*` for all that begin with orders, `*` for all.")
    permission: Literal["allow", "deny"] = Field("allow", description="deny rules can only be made with Kafka's tools.")
    host: str = Field("*", description="Address that the rule is bound to; * for any.")

    def binding(self) -> AclBinding:
        """Return Kafka's form."""
        return AclBinding(
            _RESOURCES[self.resource],
            _bare_name(self.name),
            _pattern(self.name),
            f"User:{self.user}",
            self.host,
            AclOperation[self.operation.upper()],
            AclPermissionType[self.permission.upper()],
        )

    def lets_write_to_own(self, connect_group: str) -> bool:
        """Return whether it lets somebody write to topics that Kafka, Connect or Penstock keep for themselves."""
        is_about = self.resource == "topic" and self.operation in {"write", "all"} and self.permission == "allow"
        return is_about and includes_own(self.name, connect_group)


def producer_acls(user: str, topics: Iterable[str], transactional_ids: Iterable[str] = ()) -> list[Acl]:
    """Return what a producer needs: write and describe its topics, and its transactional ids if it has any."""
    kinds: list[tuple[Resource, str]] = [("topic", name) for name in topics]
    kinds += [("transactional_id", name) for name in transactional_ids]
    return [
        Acl(user=user, operation=operation, resource=resource, name=name)
        for resource, name in kinds
        for operation in ("write", "describe")
    ]


def consumer_acls(user: str, topics: Iterable[str], groups: Iterable[str]) -> list[Acl]:
    """Return what a consumer needs: read and describe its topics, read its groups."""
    on_topics = [
        Acl(user=user, operation=operation, resource="topic", name=name)
        for name in topics
        for operation in ("read", "describe")
    ]
    return on_topics + [Acl(user=user, operation="read", resource="group", name=name) for name in groups]


def allow(admin: Admin, acls: list[Acl]) -> None:
    """Add permissions; those that are there already stay as they are."""
    futures = admin.client.create_acls([acl.binding() for acl in dict.fromkeys(acls)], request_timeout=admin.timeout_s)
    admin.results(futures, "adding permissions")
    admin.settle(lambda: set(acls) <= _of_users(admin, acls), "adding permissions")


def list_acls(admin: Admin, user: str | None = None) -> list[Acl]:
    """List permissions, of one user or of all."""
    found = admin.result(
        admin.client.describe_acls(_filter(user), request_timeout=admin.timeout_s), "listing permissions"
    )
    return sorted(map(_from_binding, found), key=lambda acl: (acl.user, acl.resource, acl.name, acl.operation))


def remove(admin: Admin, acls: list[Acl]) -> int:
    """Take permissions away; return how many were there."""
    filters = [
        AclBindingFilter(
            acl.binding().restype,
            acl.binding().name,
            acl.binding().resource_pattern_type,
            acl.binding().principal,
            acl.binding().host,
            acl.binding().operation,
            acl.binding().permission_type,
        )
        for acl in dict.fromkeys(acls)
    ]
    if not filters:
        return 0
    futures = admin.client.delete_acls(filters, request_timeout=admin.timeout_s)
    count = sum(len(removed) for removed in admin.results(futures, "removing permissions"))
    admin.settle(lambda: _of_users(admin, acls).isdisjoint(acls), "removing permissions")
    return count


def _of_users(admin: Admin, acls: list[Acl]) -> set[Acl]:
    """Return the permissions of the users whom these are about."""
    return {found for user in {acl.user for acl in acls} for found in list_acls(admin, user)}


def _filter(user: str | None) -> AclBindingFilter:
    # The client takes None for "any", which its annotations do not know yet.
    anything: Any = None
    principal = f"User:{user}" if user else anything
    return AclBindingFilter(
        ResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        principal,
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )


def _from_binding(binding: AclBinding) -> Acl:
    prefixed = binding.resource_pattern_type == ResourcePatternType.PREFIXED
    return Acl(
        user=binding.principal.removeprefix("User:"),
        operation=AclOperation(binding.operation).name.lower(),
        resource=_RESOURCE_NAMES.get(binding.restype, "cluster"),  # type: ignore[arg-type]
        name=binding.name + ("*" if prefixed else ""),
        permission="deny" if AclPermissionType(binding.permission_type) == AclPermissionType.DENY else "allow",
        host=binding.host,
    )


def _bare_name(name: str) -> str:
    return name.removesuffix("*") if _pattern(name) == ResourcePatternType.PREFIXED else name


def _pattern(name: str) -> ResourcePatternType:
    return ResourcePatternType.PREFIXED if name.endswith("*") and name != "*" else ResourcePatternType.LITERAL
