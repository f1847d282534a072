"""Serving a gateway until it is stopped; by then every accepted request has been answered."""

from collections.abc import Callable
from contextlib import suppress

import uvicorn

from penstock.errors import Transient
from penstock.kafka.connection import Connection
from penstock.lineage.gateway.app import Gateway
from penstock.lineage.gateway.counts import Counts
from penstock.lineage.gateway.options import GatewayOptions
from penstock.listening import BoundedConnection, Server, listen, require_certificate

_PATIENCE_S = 5.0


def serve(
    connection: Connection, options: GatewayOptions, *, ready: Callable[[str], None], warn: Callable[[str], None]
) -> Counts:
    """Serve until SIGINT or SIGTERM; return what was done. `ready` hears the address as soon as it answers.

    Raises if Kafka refuses this client. If Kafka is away, it begins all the same, and clients get 503 until it is back.
    """
    require_certificate(options.certificate, options.key)
    if options.token is None and connection.knows_clients:
        warn("Kafka asks for a login, and without --token-file everybody on this machine writes by the gateway's")
    listener = listen(options.host, options.port, "the gateway")
    gateway = Gateway(connection, options)
    try:
        gateway.topics.look_up(options.topic)
    except Transient as error:
        warn(f"{error}. Until Kafka answers, clients get 503")
    scheme = "http" if options.certificate is None else "https"
    address = f"{scheme}://{options.host}:{listener.getsockname()[1]}"
    limits = options.limits
    server = Server(
        uvicorn.Config(
            gateway.app(),
            log_config=None,
            access_log=False,
            server_header=False,
            http=BoundedConnection,
            ws="none",
            proxy_headers=False,  # whoever connects counts, not whom they say they speak for
            limit_concurrency=limits.connections_max,
            # Nobody waits longer than this for Kafka's answer, so nobody is cut off.
            timeout_graceful_shutdown=round(limits.answer_timeout_s + _PATIENCE_S),
            ssl_certfile=options.certificate,
            ssl_keyfile=options.key,
        ),
        lambda: ready(address),
    )
    with suppress(KeyboardInterrupt):  # uvicorn raises it again when all is done
        server.run(sockets=[listener])
    return gateway.counts
