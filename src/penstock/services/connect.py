"""Kafka Connect: the real distributed worker, with plugins of its own folder and secrets that it reads by name.

A connector's settings name a secret as `${directory:PATH:NAME}` or `${file:PATH:NAME}`; both read below the service's
folder `secrets` and nowhere else. Connect keeps the name in its topic, and never the value.

Whoever may make connectors has the worker read and write files as the user who started it. So the worker asks for a
login on every cluster: a page in a browser, and others on this machine, reach its port. Connectors can also be made by
records in its topic, so those for files are left out where anybody on a network may write to Kafka.
"""

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

from penstock.config.local_services import ServiceAddress, ServiceState
from penstock.config.services import ConnectService
from penstock.errors import BrokerUnavailable
from penstock.extras import require
from penstock.jvm import jars
from penstock.jvm.java import find_java
from penstock.jvm.java_properties import properties_text
from penstock.jvm.log4j import log4j_properties
from penstock.kafka.connection import Connection
from penstock.kafka.security.jaas import login_module
from penstock.kafka.topic_spec import connect_topics
from penstock.loopback import host_name, is_loopback
from penstock.private import make_missing_private, write_private
from penstock.secret import Secret
from penstock.services import connect_plugins
from penstock.services.asking import get
from penstock.services.connect_user import worker_connection
from penstock.services.context import ServiceContext
from penstock.services.front import FrontOptions
from penstock.services.launch import Launch, Program
from penstock.services.own_program import own_program

_MAIN_CLASS = "org.apache.kafka.connect.cli.ConnectDistributed"
# Logs every request: those of the watch alone are 43,000 a day, and what matters is not found between them.
_TALKATIVE = {"org.apache.kafka.connect.runtime.rest.RestServer": "warn"}
_PROVIDERS = "org.apache.kafka.common.config.provider"
_FEW_PARTITIONS = 5
_FILE_CONNECTORS = "__connect-file-"
_MANIFESTS = "META-INF/services/org.apache.kafka.connect."
_LOGIN_EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
_LOGIN_MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


@dataclass(frozen=True)
class Connect:
    """A worker with the settings of the project file."""

    settings: ConnectService

    def has_front(self, *, secure: bool) -> bool:
        """Return whether TLS and the login are in front of it: the worker has none that PEM files would do for."""
        return secure

    def prepare(self, context: ServiceContext, state: ServiceState) -> Launch:
        """Write its settings; return the worker, the front of a secure one, and what watches connectors."""
        if state.secure:
            require("services", "Connect on a secure cluster")
        classpath = jars.ensure("connect", context.jar_folder, context.fetching("Connect"))
        if is_open(context.connection):
            classpath = [each for each in classpath if _FILE_CONNECTORS not in each.name]
        folder = context.folder("connect")
        for each in (plugins_folder(folder), secrets_folder(folder), folder / "tmp"):
            make_missing_private(each)
        for coordinates in self.settings.plugins:
            context.on_progress(f"looking for the plugin {coordinates}")
            connect_plugins.ensure(coordinates, folder, context.jar_folder)
        properties = folder / "connect.properties"
        write_private(properties, properties_text(self._properties(context, state, folder)).encode("ascii"))
        jaas, credentials = folder / "jaas.conf", folder / "login.properties"
        password = Secret.parse(f"file:{context.login('connect')}").reveal()
        write_private(credentials, properties_text({"connect": password}).encode("ascii"))
        write_private(jaas, f"KafkaConnect {{ {login_module(_LOGIN_MODULE, file=str(credentials))} }};".encode())
        front = FrontOptions.of(context, state) if state.secure else None
        if front is not None:
            front.save(folder)
        log_settings = log4j_properties(folder / "logs" / "service.log", level="info", files=5, quiet=_TALKATIVE)
        write_private(folder / "log4j2.properties", log_settings.encode())
        java, _ = find_java()
        worker = (
            str(java),
            f"-Xmx{self.settings.heap // 1024}k",
            *("-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true"),
            f"-Djava.io.tmpdir={folder / 'tmp'}",
            # A connector's settings for its clients could name providers of their own, which read any file.
            "-Dorg.apache.kafka.automatic.config.providers=none",
            f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
            f"-Djava.security.auth.login.config={jaas}",
            *("-cp", os.pathsep.join(map(str, classpath)), _MAIN_CLASS, str(properties)),
        )
        return Launch(
            programs=(
                Program(name="worker", command=worker),
                *((front.program(folder),) if front else ()),
                own_program(context, "watch", "connect", "watch"),
            )
        )

    def probe(self, _context: ServiceContext, address: ServiceAddress) -> None:
        """Ask for connectors, which takes a worker that is in its group, and for plugins."""
        get(address, "/connectors")
        if not get(address, "/connector-plugins"):
            raise BrokerUnavailable("Connect has found no plugin yet")

    def _properties(self, context: ServiceContext, state: ServiceState, folder: Path) -> dict[str, object]:
        group, replicas = self.settings.group, context.replicas
        kept = connect_topics(group)
        connection = worker_connection(context)
        login = connection.security.java()
        inner = f"127.0.0.1:{state.inner_port}" if state.secure else f"{state.host}:{state.port}"
        clients = ("", "producer.", "consumer.", "admin.")
        providers = {"file": "FileConfigProvider", "directory": "DirectoryConfigProvider"}
        return {
            "bootstrap.servers": connection.bootstrap_servers,
            **{prefix + name: value for prefix in clients for name, value in login.items()},
            "group.id": group,
            "config.storage.topic": kept["config"],
            "config.storage.replication.factor": replicas,
            "offset.storage.topic": kept["offset"],
            "offset.storage.replication.factor": replicas,
            "offset.storage.partitions": _FEW_PARTITIONS,
            "status.storage.topic": kept["status"],
            "status.storage.replication.factor": replicas,
            "status.storage.partitions": _FEW_PARTITIONS,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "exactly.once.source.support": "enabled",
            "listeners": f"http://{inner}",
            "rest.extension.classes": _LOGIN_EXTENSION,
            "plugin.path": plugins_folder(folder),
            "plugin.discovery": "service_load" if _all_name_themselves(plugins_folder(folder)) else "hybrid_warn",
            "config.providers": ",".join(providers),
            **{f"config.providers.{name}.class": f"{_PROVIDERS}.{each}" for name, each in providers.items()},
            **{f"config.providers.{name}.param.allowed.paths": secrets_folder(folder) for name in providers},
        }


def is_open(connection: Connection) -> bool:
    """Return whether others on a network may write to Kafka without a login, and so to the worker's topics."""
    servers = connection.bootstrap_servers.split(",")
    on_this_machine = all(is_loopback(host_name(each.strip())) for each in servers)
    return not on_this_machine and not connection.knows_clients


def _all_name_themselves(folder: Path) -> bool:
    """Return whether every plugin has a manifest that names its classes, as Kafka's own have.

    Then Connect need not look through every class of every jar, which takes it half of its start.
    """
    for plugin in folder.iterdir():
        jars_of = [plugin] if plugin.suffix == ".jar" else sorted(plugin.rglob("*.jar"))
        if not any(map(_has_manifest, jars_of)):
            return False
    return True


def _has_manifest(jar: Path) -> bool:
    try:
        with zipfile.ZipFile(jar) as opened:
            return any(name.startswith(_MANIFESTS) for name in opened.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def plugins_folder(folder: Path) -> Path:
    """Return the folder in which each connector that was added has a folder of its own."""
    return folder / "plugins"


def secrets_folder(folder: Path) -> Path:
    """Return the only folder that connectors' settings may name secrets in."""
    return folder / "secrets"
