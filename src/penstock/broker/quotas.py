"""How much users may write and read a second, set by Kafka's own tool: librdkafka has no call for it.

Each call starts a JVM for a second or two. Quotas of client ids are left alone.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, Field

from penstock.broker.tools import client_properties, run_tool
from penstock.kafka.admin import Admin

_TOOL = "kafka.admin.ConfigCommand"
_LINE = re.compile(r"Quota configs for (?:user-principal '(?P<user>.*)'|the default user-principal) are (?P<set>.*)")
_NAMES = {
    "producer_bytes_per_s": "producer_byte_rate",
    "consumer_bytes_per_s": "consumer_byte_rate",
    "request_percent": "request_percentage",
}


class Quota(BaseModel, frozen=True):
    """What one user may use, or each of those that have no quota of their own. None means no limit."""

    user: str | None = Field(description="The user; none for every user without a quota of their own.")
    producer_bytes_per_s: int | None = Field(None, description="Bytes that may be written a second.")
    consumer_bytes_per_s: int | None = Field(None, description="Bytes that may be read a second.")
    request_percent: float | None = Field(
        None, description="Share of the time of a node's request and network threads; 100 is one thread."
    )

    def settings(self) -> dict[str, float]:
        """Return what is limited, by Kafka's names."""
        found = {kafka: getattr(self, ours) for ours, kafka in _NAMES.items()}
        return {name: value for name, value in found.items() if value is not None}


def list_quotas(admin: Admin, classpath: Sequence[Path]) -> list[Quota]:
    """List the quotas of users, that of all others first."""
    found = parse(_run(admin, classpath, ["--describe", "--entity-type", "users"]))
    return sorted(found, key=lambda each: (each.user is not None, each.user or ""))


def put(admin: Admin, classpath: Sequence[Path], quota: Quota) -> None:
    """Set a user's quota; whatever it leaves out has no limit from then on."""
    now = _now(admin, classpath, quota.user)
    wanted = quota.settings()
    gone = now.settings().keys() - wanted.keys()
    changes = ["--add-config", ",".join(f"{name}={value}" for name, value in wanted.items())] if wanted else []
    changes += ["--delete-config", ",".join(sorted(gone))] if gone else []
    if changes:
        _run(admin, classpath, ["--alter", *_entity(quota.user), *changes])


def remove(admin: Admin, classpath: Sequence[Path], user: str | None) -> bool:
    """Remove a user's quota; return whether there was one."""
    there = _now(admin, classpath, user).settings()
    if there:
        _run(admin, classpath, ["--alter", *_entity(user), "--delete-config", ",".join(sorted(there))])
    return bool(there)


def parse(said: str) -> list[Quota]:
    """Read what Kafka's tool prints; its lines about passwords are passed over."""
    found = []
    for match in map(_LINE.fullmatch, said.splitlines()):
        if match is not None:
            pairs = dict(each.split("=", 1) for each in match["set"].split(", ") if "=" in each)
            limits = {ours: float(pairs[kafka]) for ours, kafka in _NAMES.items() if kafka in pairs}
            found.append(Quota.model_validate({"user": match["user"], **limits}))
    return found


def _now(admin: Admin, classpath: Sequence[Path], user: str | None) -> Quota:
    return next((each for each in list_quotas(admin, classpath) if each.user == user), Quota(user=user))


def _entity(user: str | None) -> list[str]:
    # With `=`, for a name may begin with a dash.
    return ["--entity-type", "users", "--entity-default" if user is None else f"--entity-name={user}"]


def _run(admin: Admin, classpath: Sequence[Path], arguments: list[str]) -> str:
    with client_properties(admin.connection) as login:
        to = ["--bootstrap-server", admin.connection.bootstrap_servers, "--command-config", str(login)]
        return run_tool(classpath, _TOOL, [*to, *arguments], login=login)
