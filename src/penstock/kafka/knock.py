"""Why nobody answers: a knock at the first server tells an outage from a wrong protocol."""

import socket
import ssl

from penstock.errors import BrokerUnavailable, PenstockError, Refused
from penstock.kafka.connection import Connection
from penstock.kafka.security import Plaintext

_TIMEOUT_S = 2.0


def explain_silence(connection: Connection, doing: str) -> PenstockError:
    """Say what is wrong with a cluster that librdkafka calls down."""
    servers = connection.bootstrap_servers
    if not any(_accepts(server) for server in servers.split(",")):
        return BrokerUnavailable(
            f"{doing}: no Kafka answers at {servers}",
            fix="Start the local one with: penstock up; or see penstock status",
        )
    speaks_tls = any(_speaks_tls(server) for server in servers.split(","))
    wants_tls = not isinstance(connection.security, Plaintext)
    if speaks_tls and not wants_tls:
        return Refused(
            f"Kafka at {servers} speaks TLS only: it expects another security type than 'plaintext'",
            fix="Set the security type that the cluster uses: tls, mtls, plain or scram",
        )
    if wants_tls and not speaks_tls:
        return Refused(
            f"what listens at {servers} does not speak TLS", fix="Use its TLS port, or the security type plaintext"
        )
    return BrokerUnavailable(
        f"{doing}: {servers} accepts connections but does not answer as Kafka to a client of security type"
        f" '{connection.security.type}': it is starting, or expects another type",
        fix="Try again, or check the security setting",
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


def _speaks_tls(server: str) -> bool:
    # Only asks whether TLS is spoken; nothing is sent, so there is nothing to verify.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection(_address(server), timeout=_TIMEOUT_S) as raw, context.wrap_socket(raw):
            return True
    except ssl.SSLError as error:
        # An alert, such as a demand for a client certificate, is TLS too; a strange version is not.
        return "ALERT" in str(error).upper()
    except OSError:
        return False
