"""How RabbitMQ is connected to, and what its failures and those of the way there mean."""

import logging

import pika
from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import (
    AMQPError,
    AuthenticationError,
    ChannelClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from penstock.errors import BadInput, BrokerUnavailable, Conflict, PenstockError, Refused
from penstock.transports.address import Address
from penstock.transports.tls import tls_context, tls_refusal

ANSWER_S = 10.0
CONFIRM_S = 30.0
_DENIED = (AuthenticationError, ProbableAuthenticationError, ProbableAccessDeniedError)
# A handshake that fails, as with TLS, is none of pika's other errors.
FAILURES = (AMQPError, AMQPConnectorException, OSError)
_NOT_ALLOWED = 403


def parameters(address: Address) -> pika.ConnectionParameters:
    """Return what pika connects with; raise `BadInput` if a password is missing."""
    # pika reports every failed attempt as an error with a traceback, beside the exception that we turn into one line.
    logger = logging.getLogger("pika")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
    if address.user is not None and address.password is None:
        raise BadInput(
            f"RabbitMQ asks user '{address.user}' for a password", fix="Add ?password=env:NAME or ?password=file:PATH"
        )
    password = address.password.reveal() if address.password is not None else "guest"
    context = tls_context(address)
    return pika.ConnectionParameters(
        address.host,
        address.port,
        address.path or "/",
        pika.PlainCredentials(address.user or "guest", password),
        # Heartbeats are sent only while pika is called: a busy program would be cut off. TCP looks after dead peers.
        heartbeat=0,
        ssl_options=pika.SSLOptions(context, address.host) if context is not None else None,
        tcp_options={"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3},
        socket_timeout=ANSWER_S,
        stack_timeout=ANSWER_S,
        blocked_connection_timeout=CONFIRM_S,
    )


def translated(error: BaseException, address: Address, doing: str) -> PenstockError:
    """Return what a failure means: nobody answers, or RabbitMQ refuses this user or operation."""
    where = f"RabbitMQ at {address.server}"
    causes = _causes(error)
    if any(isinstance(cause, _DENIED) for cause in causes):
        return Refused(
            f"{doing}: {where} does not let user '{address.user or 'guest'}' into virtual host '{address.path or '/'}'",
            fix="Check the user, the virtual host and what ?password= points to",
        )
    if isinstance(error, ChannelClosedByBroker) and error.reply_code == _NOT_ALLOWED:
        return Refused(f"{doing}: {where} refuses it ({error.reply_text})")
    if isinstance(error, ChannelClosedByBroker):
        return Conflict(f"{doing}: {where} says {error.reply_text}")
    for cause in causes:
        if refused := tls_refusal(doing, where, cause):
            return refused
    reason = next((str(cause).splitlines()[0] for cause in reversed(causes) if str(cause)), type(error).__name__)
    return BrokerUnavailable(f"{doing}: {where} does not answer ({reason})", fix="Try again")


def _causes(error: BaseException) -> list[BaseException]:
    """Unwrap what pika packs into each other, the innermost last."""
    found = [error]
    for each in found:
        inner = [*getattr(each, "exceptions", ()), getattr(each, "exception", None), *each.args]
        found += [cause for cause in inner if isinstance(cause, BaseException) and cause not in found]
    return found
