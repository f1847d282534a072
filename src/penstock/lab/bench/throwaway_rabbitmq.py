"""A real RabbitMQ for benches and tests.

Erlang has a port mapper, epmd, which a node starts when it finds none and which then stays for good. Here it is a
process of ours, on a port of its own, so that it goes when the node goes.
"""

import os
import secrets
import shutil
import socket
import ssl
from pathlib import Path

import pika
from pika.exceptions import AMQPError

from penstock.broker.ports import find_free
from penstock.errors import EnvironmentNotReady
from penstock.lab.bench.throwaway import HOST, ThrowawayServer
from penstock.private import write_private

_USER = "penstock"
# Debian's command in the PATH insists on being root or a user of its own; the script behind it does not.
_DEBIAN = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class RunningRabbitMQ(ThrowawayServer):
    """A throwaway RabbitMQ, with a port mapper of its own."""

    name = "RabbitMQ"

    def __init__(self, folder: Path, *, tls: bool = False) -> None:
        super().__init__(folder, tls=tls)
        self._binary, self._epmd_binary = find_server()
        self.port, self._epmd_port, self._distribution_port = find_free(HOST, 3)
        self._write_settings()

    @property
    def data(self) -> Path:
        """Where it keeps its queues."""
        return self._folder / "mnesia"

    @property
    def address(self) -> str:
        """The address for `open_transport`."""
        return f"amqp://{_USER}@{HOST}:{self.port}/?{self._login}"

    def _write_settings(self) -> None:
        settings = {
            f"default_user = {_USER}",
            f"default_pass = {self.password}",
            "log.console = true",
            "log.file = false",
            # A throwaway server on a full disk or a small machine should fail loudly elsewhere, not block publishers.
            "disk_free_limit.absolute = 50MB",
            # The default from RabbitMQ 4 on.
            "max_message_size = 16777216",
        }
        if self._certificates is None:
            settings |= {f"listeners.tcp.1 = {HOST}:{self.port}"}
        else:
            chain = self._certificates.node_pem(1)
            settings |= {f"ssl_options.cacertfile = {self._certificates.ca_pem}", f"ssl_options.certfile = {chain}"}
            settings |= {f"ssl_options.keyfile = {chain}", f"listeners.ssl.1 = {HOST}:{self.port}"}
            settings |= {"listeners.tcp = none"}
        write_private(self._folder / "rabbitmq.conf", ("\n".join(sorted(settings)) + "\n").encode())
        write_private(self._folder / "enabled_plugins", b"[].\n")
        write_private(self._folder / ".erlang.cookie", secrets.token_hex(16).encode())

    def _environment(self) -> dict[str, str]:
        """Leave nothing to the machine's own RabbitMQ, whose settings and node must not be touched."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(self._folder),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": HOST,
            "RABBITMQ_NODENAME": f"penstock{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_CONF_ENV_FILE": str(self._folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(self._folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self._folder / "none.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.data),
            "RABBITMQ_LOG_BASE": str(self._folder),
            "RABBITMQ_PID_FILE": str(self._folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }

    def start(self) -> None:
        """Start it and wait until it lets us in; after a kill it recovers its queues first."""
        mapper = [self._epmd_binary, "-port", str(self._epmd_port), "-address", HOST]
        # A node that finds no mapper would start one that nobody ends.
        self._launch(mapper, lambda: _listens(self._epmd_port), env=self._environment())
        self._launch([self._binary], self._answers, env=self._environment())

    def _answers(self) -> bool:
        if not _listens(self.port):
            return False
        try:
            self.connect().close()
        except AMQPError:
            return False
        return True

    def connect(self) -> pika.BlockingConnection:
        """Open a connection of one's own, past everything that Penstock does."""
        login = pika.PlainCredentials(_USER, self.password)
        context = ssl.create_default_context(cafile=str(self.ca)) if self.ca is not None else None
        encryption = pika.SSLOptions(context, HOST) if context is not None else None
        return pika.BlockingConnection(
            pika.ConnectionParameters(HOST, self.port, credentials=login, ssl_options=encryption)
        )


def _listens(port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex((HOST, port)) == 0


def find_server() -> tuple[str, str]:
    """Return the paths of the server and its port mapper; raise `EnvironmentNotReady` where there are none."""
    server = str(_DEBIAN) if _DEBIAN.exists() else shutil.which("rabbitmq-server")
    epmd = shutil.which("epmd")
    if server is None or epmd is None:
        raise EnvironmentNotReady(
            "there is no RabbitMQ server here", fix="Install one, on Debian with: apt-get install rabbitmq-server"
        )
    return server, epmd
