"""From librdkafka's errors to ours: each names its cause.

A client that cannot log in does not fail in the call itself: that times out, and the reason goes to a callback.
`Causes` is that callback, and turns what it was given into the error to raise.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from penstock.errors import BadInput, BrokerUnavailable, Conflict, LeaderNotAvailable, NotFound, PenstockError, Refused
from penstock.kafka.connection import Connection
from penstock.kafka.diagnose import Diagnosis, explain_outage
from penstock.kafka.security import Plain, Plaintext, Scram

logger = logging.getLogger("penstock.kafka")
logger.addHandler(logging.NullHandler())

_LOOK_AGAIN_S = 5.0
# One name can stand for several addresses: all are tried before "all brokers down" is believed.
_PATIENCE_S = 1.0

_REFUSED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "the group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the cluster",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the transactional id",
}
_NOT_FOUND = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - librdkafka's names for its own errors begin so
    KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError.RESOURCE_NOT_FOUND,
}
_BAD_INPUT = {
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_REPLICA_ASSIGNMENT,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_REQUEST,
    KafkaError.POLICY_VIOLATION,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_RECORD,
    KafkaError._INVALID_ARG,  # noqa: SLF001
}
_CONFLICT = {
    KafkaError.TOPIC_ALREADY_EXISTS,
    KafkaError.NON_EMPTY_GROUP,
    KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
    KafkaError.REASSIGNMENT_IN_PROGRESS,
}
_UNREACHABLE = {
    KafkaError._TRANSPORT,  # noqa: SLF001
    KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._RESOLVE,  # noqa: SLF001
    KafkaError.REQUEST_TIMED_OUT,
}
_TAKEN_OVER = {
    KafkaError._FENCED,  # noqa: SLF001
    KafkaError.INVALID_PRODUCER_EPOCH,
}
# The partition or its coordinator is between two leaders, or new: the same call succeeds in a moment.
_SETTLING = {
    KafkaError._NOENT,  # noqa: SLF001
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
}


def who(connection: Connection) -> str:
    """Name the client as the cluster sees it."""
    security = connection.security
    return f"user '{security.username}'" if isinstance(security, Plain | Scram) else "this client"


def translate(failure: KafkaError | KafkaException, connection: Connection, doing: str) -> PenstockError:
    """Turn an error of librdkafka into ours; `doing` names the operation, as in "creating topic 'orders'"."""
    error = failure.args[0] if isinstance(failure, KafkaException) else failure
    code, text = error.code(), error.str()
    if code in _REFUSED:
        return Refused(
            f"{who(connection)} has no permission on {_REFUSED[code]} for {doing}",
            fix="Ask for an ACL; on a local cluster, run: penstock acl allow",
        )
    if code in _NOT_FOUND:
        hidden = "" if isinstance(connection.security, Plaintext) else f", or {who(connection)} may not see it"
        return NotFound(f"{doing}: it does not exist{hidden}")
    if code in _BAD_INPUT:
        return BadInput(f"{doing}: {text}")
    if code in _CONFLICT:
        return Conflict(f"{doing}: {text}")
    if code in _TAKEN_OVER:
        return Conflict(
            f"{doing}: a newer producer with the same transactional id has taken over",
            safe="Its transactions are intact, this one was aborted",
            fix="Let only one run",
        )
    if code in _SETTLING:
        return LeaderNotAvailable(f"{doing}: a new leader is not ready ({text})", fix="Try again in a moment")
    if code in _UNREACHABLE or error.retriable():
        return BrokerUnavailable(
            f"{doing}: no answer from Kafka at {connection.bootstrap_servers} ({text})",
            fix="Look with: penstock status",
        )
    return Refused(f"{doing}: Kafka says {text} ({error.name()})")


FATAL = (KafkaException, SystemError)
"""What a producer's `poll` and `flush` raise when it can never be used again; once, and no callback hears of it."""


def fatal_error(failure: KafkaException | SystemError) -> KafkaError:
    """Return what ended a producer; Python raises another exception if a report is read right after the error."""
    cause = failure if isinstance(failure, KafkaException) else failure.__cause__
    if not isinstance(cause, KafkaException):
        raise failure
    error: KafkaError = cause.args[0]
    return error


@contextmanager
def opening(connection: Connection) -> Iterator[None]:
    """Explain why a client cannot be created: a certificate file that is missing, a setting out of range."""
    try:
        yield
    except KafkaException as failure:
        reason = failure.args[0].str().splitlines()[0]
        raise BadInput(
            f"the connection to {connection.bootstrap_servers} cannot be opened: {reason}",
            fix="Check the security setting and client_settings",
        ) from None


class Causes:
    """Collects why a client cannot connect, for the error of a call that does not return."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._login: PenstockError | None = None
        self._down_since: float | None = None
        self._looked: tuple[float, Diagnosis] | None = None

    def __call__(self, error: KafkaError) -> None:
        """Take one report; librdkafka calls this from `poll`."""
        servers = self._connection.bootstrap_servers
        code, text = error.code(), error.str()
        if code == KafkaError._AUTHENTICATION:  # noqa: SLF001
            self._login = Refused(
                f"the login of {who(self._connection)} was refused by Kafka at {servers}: wrong user or password",
                fix="Check the name and the secret that the security setting points to",
            )
        elif code == KafkaError._SSL:  # noqa: SLF001
            self._login = _tls_failure(servers, text)
        elif code == KafkaError._ALL_BROKERS_DOWN and self._down_since is None:  # noqa: SLF001
            self._down_since = time.monotonic()
        logger.debug("%s", text)

    def refusal(self) -> PenstockError | None:
        """Return the reason if the cluster refuses this client; None for outages, which may pass.

        An outage is forgotten once a server accepts a connection: if it goes on, librdkafka reports it again.
        """
        cause = self.decisive()
        if isinstance(cause, Refused):
            return cause
        if cause is not None and self._looked is not None and self._looked[1].is_there:
            self.forget_outage()
        return None

    def decisive(self) -> PenstockError | None:
        """Return the reason why waiting longer is pointless, if there is one."""
        if self._login is not None:
            return self._login
        if self._down_since is not None and time.monotonic() - self._down_since > _PATIENCE_S:
            return self._look("")
        return None

    def timeout(self, doing: str) -> PenstockError:
        """Return the best explanation for a call that never returned."""
        return self._login or self._look(doing)

    def _look(self, doing: str) -> PenstockError:
        """Connect directly, now and then: librdkafka reports a wrong protocol as a broker that is down."""
        if self._looked is None or time.monotonic() - self._looked[0] > _LOOK_AGAIN_S:
            self._looked = (time.monotonic(), explain_outage(self._connection, doing))
        return self._looked[1].error

    def forget_outage(self) -> None:
        """Start over after an answer: an outage that has passed explains nothing."""
        self._down_since = None
        self._looked = None


def _tls_failure(servers: str, text: str) -> Refused:
    if "verify" in text or "unknown ca" in text.lower():
        return Refused(
            f"the certificate of Kafka at {servers} is not signed by the CA that this client trusts,"
            " or names another host",
            fix="Check ca_file in the security setting",
        )
    return Refused(f"TLS with Kafka at {servers} failed: {text.splitlines()[0]}", fix="Check the security setting")
