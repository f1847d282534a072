"""Why nobody answers: a knock at the first server distinguishes an outage from a wrong protocol."""

import socket
import ssl
import struct
from typing import NamedTuple

from penstock.errors import BrokerUnavailable, PenstockError, Refused
from penstock.kafka.connection import Connection
from penstock.kafka.security import Plaintext
from penstock.loopback import is_loopback

_TIMEOUT_S = 2.0
# The request that every Kafka answers before anything else, a login included: which versions it knows.
_API_VERSIONS = 18
_CORRELATION_ID = 7
_QUESTION = struct.pack(">ihhih", 10, _API_VERSIONS, 0, _CORRELATION_ID, -1)


class Silence(NamedTuple):
    """What a knock found out."""

    error: PenstockError
    is_there: bool


def explain_silence(connection: Connection, doing: str) -> Silence:
    """Say what is wrong with a cluster that librdkafka calls down, and whether anybody accepts connections there."""
    servers = connection.bootstrap_servers
    reachable = [server for server in servers.split(",") if _accepts(server)]
    if not reachable:
        nobody = BrokerUnavailable(
            f"{doing}: no Kafka answers at {servers}",
            fix="Start the local one with: penstock up"
            if all(is_loopback(server.rpartition(":")[0]) for server in servers.split(","))
            else "Check the address, the network, and whether it runs",
        )
        return Silence(nobody, is_there=False)
    # Refused is for good, so it takes a proof. A server that says nothing at all may only be busy.
    spoken = [_speaks_tls(server) for server in reachable]
    wants_tls = not isinstance(connection.security, Plaintext)
    if True in spoken and not wants_tls:
        return Silence(_only_tls(servers), is_there=True)
    if wants_tls and True not in spoken and False in spoken:
        return Silence(_no_tls(servers), is_there=True)
    undecided = BrokerUnavailable(
        f"{doing}: {servers} accepts connections but does not answer as Kafka to a client of security type"
        f" '{connection.security.type}': it is starting or busy, or expects another type",
        fix="Try again, or check the security setting",
    )
    return Silence(undecided, is_there=True)


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
    """Say whether it speaks TLS; None if that is not known."""
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
            answer = raw.recv(8, socket.MSG_WAITALL)
    except OSError:
        return False
    return answer[4:] == struct.pack(">i", _CORRELATION_ID)
