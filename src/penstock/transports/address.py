"""Addresses of transports, such as `redis://127.0.0.1:6379/0?password=env:REDIS_PASSWORD`.

An address names where a password is kept and never holds it, so that it can be printed, logged and shown by `ps`.
"""

import re
from collections.abc import Callable
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import BaseModel, Field

from penstock.errors import BadInput
from penstock.extras import require
from penstock.secret import Secret
from penstock.transports.transport import Transport

_DEFAULT_PORTS = {"redis": 6379, "redis-pubsub": 6379, "amqp": 5672}
_AMQP_TLS_PORT = 5671
_HOST = "127.0.0.1"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")


class Address(BaseModel, frozen=True, extra="forbid"):
    """Where a server is and how to log in. Printing it shows no secret."""

    scheme: str = Field(description="Which transport: kafka, redis, redis-pubsub or amqp.")
    host: str = Field(description="Host, or empty for the project's Kafka.")
    port: int | None = Field(description="Port, or none for the project's Kafka.")
    user: str | None = Field(description="Who logs in, where the server asks.")
    password: Secret | None = Field(description="Where the password is kept.")
    tls: str | None = Field(description="The CA to trust: `system`, or a PEM file; no TLS if none.")
    path: str = Field(description="What comes after the port: a Redis database or a virtual host.")

    @property
    def server(self) -> str:
        """Host and port as servers are written, with an IPv6 address in brackets; empty for the project's Kafka."""
        return server_name(self.host, self.port) if self.host else ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.server}" + (f"/{self.path}" if self.path else "")


def server_name(host: str, port: int | None) -> str:
    """Write host and port so that they can be told apart: an IPv6 address goes into brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


Connect = Callable[[Address], Transport]


def parse(text: str) -> Address:
    """Read an address; what is wrong with it is said without repeating what may be a password."""
    scheme, separator, _ = text.partition("://")
    if not separator or scheme not in _OPENERS:
        no_scheme = "this address, which has no '://'," if not separator else "what is in front of '://'"
        named = f"'{scheme}://'" if separator and _SCHEME.fullmatch(scheme) else no_scheme
        raise BadInput(f"no transport is known for {named}", fix=f"Known are: {', '.join(f'{s}://' for s in _OPENERS)}")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise BadInput(f"the {scheme}:// address has no valid host and port") from None
    # A password with a slash, a question mark or a hash ends the host early, and its rest stands in what follows.
    if parts.password is not None or "@" in parts.path + parts.query + parts.fragment:
        raise BadInput(
            f"the {scheme}:// address holds a password", fix="Say where it is kept: ?password=env:NAME or file:PATH"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    reference = options.pop("password", None)
    tls = options.pop("tls", None) if scheme != "kafka" else None
    if options or (scheme == "kafka" and (reference or parts.username)):
        unknown = next(iter(options), "password" if reference else "user")
        # Part of a password that has an ampersand looks like an option.
        named = f"no '{unknown}'" if unknown in {"password", "tls", "user"} else "no other option"
        raise BadInput(f"a {scheme}:// address takes {named}", fix=_fix_for_options(scheme))
    try:
        password = Secret.parse(reference) if reference is not None else None
    except ValueError as error:
        raise BadInput(f"the {scheme}:// address: {error}") from None
    host = parts.hostname or ("" if scheme == "kafka" else _HOST)
    if scheme == "kafka" and host and port is None:
        raise BadInput("a kafka:// address names host:port, or nothing for the project's Kafka")
    return Address(
        scheme=scheme,
        host=host,
        port=port or (_AMQP_TLS_PORT if tls and scheme == "amqp" else _DEFAULT_PORTS.get(scheme)),
        user=unquote(parts.username) if parts.username else None,
        password=password,
        tls=tls,
        path=unquote(parts.path.removeprefix("/")),
    )


def _fix_for_options(scheme: str) -> str:
    if scheme == "kafka":
        return "Name the login in penstock.yaml or by the variables PENSTOCK_SECURITY_*"
    return "It takes password=env:NAME or file:PATH, and tls=system or the file of a CA"


def open_transport(address: str) -> Transport:
    """Connect.

    Raises `BadInput` for an address that cannot be used, `Transient` when nobody answers there, and
    `EnvironmentNotReady` for Redis and RabbitMQ unless `penstock[lab]` is installed.
    """
    return opener(parse(address))()


def opener(address: Address) -> Callable[[], Transport]:
    """Load the client library now, and connect when the result is called.

    A thread that outlives the main one could not load it any more: Python refuses while it shuts down.
    """
    if address.scheme != "kafka":
        require("lab", f"a {address.scheme}:// address")
    connect = _OPENERS[address.scheme]()
    return lambda: connect(address)


# Each loads its client library only when an address asks for it.
def _kafka() -> Connect:
    from penstock.config import settings
    from penstock.transports.kafka import Kafka

    def connect(address: Address) -> Transport:
        return Kafka(settings.load(bootstrap=address.server or None).connection())

    return connect


def _redis_streams() -> Connect:
    from penstock.transports.redis_streams import RedisStreams

    return RedisStreams


def _redis_pubsub() -> Connect:
    from penstock.transports.redis_pubsub import RedisPubSub

    return RedisPubSub


def _rabbitmq() -> Connect:
    from penstock.transports.rabbitmq import RabbitMQ

    return RabbitMQ


_OPENERS: dict[str, Callable[[], Connect]] = {
    "kafka": _kafka,
    "redis": _redis_streams,
    "redis-pubsub": _redis_pubsub,
    "amqp": _rabbitmq,
}
