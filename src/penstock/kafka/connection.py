"""Where a Kafka cluster is, how to log in, and the few client settings that users may change.

Settings are an allowlist. Some of librdkafka's own settings load libraries, run shell commands or fetch
URLs (`plugin.library.paths`, `sasl.kerberos.kinit.cmd`, `ssl.engine.location`,
`sasl.oauthbearer.token.endpoint.url`), and some would quietly break a guarantee
(`enable.auto.commit`, `acks`): none of these is reachable from a file or the environment.
"""

import re
from typing import Any

from pydantic import BaseModel, Field, field_validator

from penstock.kafka.security import Plaintext, Security
from penstock.wording import nearest

TUNABLE_SETTINGS = frozenset(
    {
        "broker.address.family",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "fetch.wait.max.ms",
        "heartbeat.interval.ms",
        "max.in.flight.requests.per.connection",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "message.max.bytes",
        "metadata.max.age.ms",
        "queued.max.messages.kbytes",
        "receive.message.max.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "session.timeout.ms",
        "socket.connection.setup.timeout.ms",
        "socket.keepalive.enable",
        "socket.timeout.ms",
        "statistics.interval.ms",
    }
)

# librdkafka stops fetching for a whole second when its queue is full; a fast reader empties it in a fraction of that.
FETCHING = {"fetch.queue.backoff.ms": 10}

_SERVER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
_MAX_PORT = 65_535
_KNOWS_CLIENTS = {"mtls", "plain", "scram"}


class Connection(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """A cluster and how to log in. Holds no secret: passwords are read when a client is opened."""

    bootstrap_servers: str = Field(description="host:port of one or more nodes, separated by commas.")
    security: Security = Field(default_factory=Plaintext, description="How the client logs in.")
    client_settings: dict[str, str | int | bool] = Field(
        default_factory=dict, description="Settings of librdkafka to change, from an allowlist."
    )

    @property
    def knows_clients(self) -> bool:
        """Whether clients have an identity in Kafka, by a login or a certificate."""
        return self.security.type in _KNOWS_CLIENTS

    @field_validator("bootstrap_servers")
    @classmethod
    def _servers_are_host_and_port(cls, value: str) -> str:
        servers = [server.strip() for server in value.split(",") if server.strip()]
        if not servers:
            raise ValueError("name at least one server as host:port")
        for number, server in enumerate(servers, 1):
            match = _SERVER.fullmatch(server)
            # It is not repeated: addresses elsewhere hold passwords.
            which = f", server {number} of {len(servers)}" if len(servers) > 1 else ""
            if match is None:
                raise ValueError(f"a server is named as host:port, without a user or a password{which}")
            if not 0 < int(match[2]) <= _MAX_PORT:
                raise ValueError(f"a port is a number from 1 to {_MAX_PORT}{which}")
        return ",".join(servers)

    @field_validator("client_settings")
    @classmethod
    def _settings_are_allowed(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if name not in TUNABLE_SETTINGS:
                close = nearest(name, TUNABLE_SETTINGS)
                hint = f"; did you mean '{close}'?" if close else ""
                raise ValueError(f"'{name}' may not be set here{hint}")
        return value

    def librdkafka(self) -> dict[str, Any]:
        """Return the settings common to every client; reads the secrets, so never log the result."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            **self.client_settings,
            **self.security.librdkafka(),
        }
