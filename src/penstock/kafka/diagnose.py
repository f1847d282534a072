"""Why nobody answers: a connection to the first server distinguishes an outage from a wrong protocol."""

import socket
import ssl
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import BrokerUnavailable, PenstockError, Refused
from penstock.kafka.connection import Connection
from penstock.kafka.security import Plaintext
from penstock.loopback import is_loopback
from penstock.port_holder import port_holder, shown

if TYPE_CHECKING:
    import psutil

_TIMEOUT_S = 2.0
# The request that every Kafka answers before anything else, a login included: which versions it knows.
_API_VERSIONS = 18
_CORRELATION_ID = 7
_QUESTION = struct.pack(">ihhih", 10, _API_VERSIONS, 0, _CORRELATION_ID, -1)
_ANSWER_BYTES = 8
_TLS_ALERT = 0x15
_HTTP = (b"HTTP/", b"<!DOCTYP", b"<html>")
_KAFKA_MAIN = "kafka.Kafka"


class Diagnosis(NamedTuple):
    """What a connection of our own found out."""

    error: PenstockError
    is_there: bool


def explain_outage(connection: Connection, doing: str) -> Diagnosis:
    """Return what is wrong with a cluster that seems to be down, and whether anything accepts connections there.

    `doing` is what failed; empty while a client has not connected yet.
    """
    servers = connection.bootstrap_servers
    prefix = f"{doing}: " if doing else ""
    reachable = [server for server in servers.split(",") if _accepts(server)]
    if not reachable:
        nobody = BrokerUnavailable(
            f"{prefix}no Kafka answers at {servers}",
            fix="Start the local one with: penstock up; if it is another one, check the address"
            if all(is_loopback(server.rpartition(":")[0].strip("[]")) for server in servers.split(","))
            else "Check the address, the network, and whether it runs",
        )
        return Diagnosis(nobody, is_there=False)
    # Refused is for good, so it takes a proof. A server that says nothing at all may only be busy.
    spoken = [_speaks_tls(server) for server in reachable]
    wants_tls = not isinstance(connection.security, Plaintext)
    if True in spoken and not wants_tls:
        return Diagnosis(_only_tls(servers), is_there=True)
    if wants_tls and True not in spoken and False in spoken:
        return Diagnosis(_no_tls(servers), is_there=True)
    undecided = BrokerUnavailable(
        f"{prefix}{servers} accepts connections but does not answer as Kafka to a client of security type"
        f" '{connection.security.type}': it is starting or busy, or expects another type",
        fix="Try again, or check the security setting",
    )
    return Diagnosis(undecided, is_there=True)


def require_kafka(servers: str, fix: str = "Check the address") -> None:
    """Raise if something other than Kafka listens at every address, all on this machine: a client would wait long.

    One that says nothing may be a Kafka that starts or hangs: where the process is seen to be one, it is waited for.
    """
    for server in servers.split(","):
        if not (stranger := _stranger(server)):
            return
    raise BrokerUnavailable(f"what listens at {servers} is not Kafka: {stranger}", fix=fix)


def _stranger(server: str) -> str:
    """Return what answers in place of Kafka; empty if Kafka does, TLS is possible, or nothing listens."""
    try:
        with socket.create_connection(_address(server), timeout=_TIMEOUT_S) as raw:
            raw.sendall(_QUESTION)
            answer = raw.recv(_ANSWER_BYTES, socket.MSG_WAITALL)
    except TimeoutError:
        holder = port_holder(_address(server)[1])
        if _is_kafka(holder):
            return ""
        return f"{shown(holder) or 'it'} accepts connections and says nothing"
    except OSError:
        return ""
    if not answer or _is_answer(answer) or answer[0] == _TLS_ALERT:
        return ""
    kind = "an HTTP server" if answer.startswith(_HTTP) else "another kind of server"
    return f"{shown(port_holder(_address(server)[1])) or 'it'} answers as {kind}"


def _is_kafka(process: "psutil.Process | None") -> bool:
    import psutil

    with suppress(psutil.Error):
        return process is not None and _KAFKA_MAIN in process.cmdline()
    return False


def is_reachable(connection: Connection) -> bool:
    """Return whether anything accepts connections at the address, Kafka or not."""
    return any(_accepts(server) for server in connection.bootstrap_servers.split(","))


def _only_tls(servers: str) -> Refused:
    return Refused(
        f"Kafka at {servers} speaks TLS only: it expects another security type than 'plaintext'",
        fix="Set the security type that the cluster uses: tls, mtls, plain or scram",
    )


def _no_tls(servers: str) -> Refused:
    return Refused(
        f"what listens at {servers} does not speak TLS", fix="Use its TLS port, or the security type plaintext"
    )


def _address(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    return host.strip("[]"), int(port)


def _accepts(server: str) -> bool:
    try:
        with socket.create_connection(_address(server), timeout=_TIMEOUT_S):
            return True
    except OSError:
        return False


def _speaks_tls(server: str) -> bool | None:
    """Return whether it speaks TLS; None if that is not known."""
    # Only asks whether TLS is spoken; nothing is sent, so there is nothing to verify.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection(_address(server), timeout=_TIMEOUT_S) as raw, context.wrap_socket(raw):
            return True
    except ssl.SSLError as error:
        # An alert, such as a demand for a client certificate, is TLS too.
        if "ALERT" in str(error).upper():
            return True
        if "WRONG_VERSION_NUMBER" in str(error):
            return False
    except OSError:
        pass
    # Kafka without TLS hangs up, as a server behind a proxy does that is down.
    return False if _answers_in_the_clear(server) else None


def _answers_in_the_clear(server: str) -> bool:
    try:
        with socket.create_connection(_address(server), timeout=_TIMEOUT_S) as raw:
            raw.sendall(_QUESTION)
            return _is_answer(raw.recv(_ANSWER_BYTES, socket.MSG_WAITALL))
    except OSError:
        return False


def _is_answer(found: bytes) -> bool:
    """Return whether these are the first bytes of a Kafka's answer: behind the length, the number that was sent."""
    return found[4:] == struct.pack(">i", _CORRELATION_ID)
