"""Connecting to Redis, for both transports that use it, and its errors as ours."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from penstock.errors import BadInput, BrokerUnavailable, NotFound, PenstockError, Refused
from penstock.transports.address import Address
from penstock.transports.tls import SYSTEM, tls_context, tls_refusal

ANSWER_S = 10.0


def login(address: Address) -> dict[str, Any]:
    """Return what every client of Redis needs to connect to an address: server, password and TLS."""
    database = address.path or "0"
    if not database.isdecimal():
        raise BadInput(f"a Redis database is a number, as in {address.scheme}://{address.server}/0")
    encrypted = tls_context(address) is not None
    return {
        "host": address.host,
        "port": address.port or 0,
        "db": int(database),
        "username": address.user,
        "password": address.password.reveal() if address.password is not None else None,
        "ssl": encrypted,
        "ssl_ca_certs": address.tls if encrypted and address.tls != SYSTEM else None,
        "ssl_check_hostname": encrypted,
    }


def connect(address: Address) -> Any:
    """Open a client and make sure that the server answers."""
    client = redis.Redis(
        **login(address),
        socket_timeout=ANSWER_S,
        socket_connect_timeout=ANSWER_S,
        # A hidden retry would hide that messages were lost, or send them twice.
        retry=Retry(NoBackoff(), 0),
    )
    try:
        with translated(address, "connecting"):
            client.ping()
    except PenstockError:
        client.close()
        raise
    return client


@contextmanager
def translated(address: Address, doing: str) -> Iterator[None]:
    """Raise what Redis says as one of our errors."""
    where = f"Redis at {address.server}"
    try:
        yield
    except (
        redis.AuthenticationError,
        redis.exceptions.AuthorizationError,
        redis.exceptions.NoPermissionError,
    ) as error:
        raise Refused(
            f"{doing}: {where} does not let this client in ({_first_line(error)})",
            fix="Check the user and what ?password= points to",
        ) from None
    except (redis.ConnectionError, redis.TimeoutError, redis.exceptions.OutOfMemoryError) as error:
        refused = tls_refusal(doing, where, error)
        # Redis without TLS waits for the end of what it takes for a command, and says nothing.
        fix = "Try again" if address.tls is None else "Try again, or check whether this port speaks TLS"
        away = BrokerUnavailable(f"{doing}: {where} does not answer ({_first_line(error)})", fix=fix)
        raise refused or away from None
    except redis.ResponseError as error:
        if str(error).startswith("NOGROUP"):
            raise NotFound(
                f"{doing}: {where} no longer has the group: it lost its data, or somebody deleted it",
                fix="Subscribe again",
            ) from None
        raise Refused(f"{doing}: {where} says {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    # In a pipeline the client puts the whole command before it, and with it the message.
    _, _, said = str(error).rpartition(" of pipeline caused error: ")
    return (said.splitlines() or [type(error).__name__])[0].rstrip(".")
