"""The addresses of this project's services. Kept apart from starting them, so that a client command loads little."""

from pathlib import Path

from pydantic import BaseModel, Field

from penstock.config import state_file
from penstock.config.secrets_folder import SecretsFolder
from penstock.config.service_names import ServiceName
from penstock.config.services import services_folder
from penstock.errors import NotFound
from penstock.port_holder import require_own_listener
from penstock.record.formats import SERVICE
from penstock.secret import Secret

_FILE = "service.json"


class ServiceAddress(BaseModel, frozen=True, extra="forbid"):
    """Where a service answers, and how to log in."""

    url: str = Field(description="Its address, without a slash at the end.")
    username: str | None = Field(None, description="User of the login; none where there is no login.")
    password: Secret | None = Field(None, description="Password of the login.")
    ca_file: Path | None = Field(None, description="CA that signed its certificate.")

    def require_ours(self) -> None:
        """Raise `ConnectionRefusedError` if what is sent there, a login, would be somebody else's to read.

        While the service starts, or is away, anybody on this machine can have its port. By TLS it shows who it is.
        """
        if self.password is not None and self.ca_file is None:
            require_own_listener(self.url)

    @property
    def shown(self) -> str:
        """The address, and where its login is."""
        if self.password is None:
            return self.url
        return f"{self.url}; user '{self.username}', password in {self.password.source.removeprefix('file:')}"


class ServiceState(BaseModel, frozen=True, extra="forbid"):
    """What a service was started with."""

    name: ServiceName = Field(description="Which service it is.")
    host: str = Field(description="Address that it listens on.")
    port: int = Field(description="Port that clients use.")
    inner_port: int | None = Field(
        description="Port of the program behind the one that clients use; none if they meet."
    )
    secure: bool = Field(description="Whether it speaks TLS and asks for a login.")
    login: bool = Field(default=False, description="Whether it asks for a login also where it speaks no TLS.")

    def save(self, folder: Path) -> None:
        """Write it so that a crash leaves the old one or the new one."""
        state_file.save(folder / _FILE, SERVICE, self)

    def address(self, home: Path) -> ServiceAddress:
        """Return its address."""
        asks = self.secure or self.login
        # Without a certificate a name would do for whoever listens at another of its addresses.
        host = self.host if self.secure or self.host.lower() != "localhost" else "127.0.0.1"
        return ServiceAddress(
            url=f"{'https' if self.secure else 'http'}://{host}:{self.port}",
            username=self.name if asks else None,
            password=Secret.parse(f"file:{password_file(home, self.name)}") if asks else None,
            ca_file=SecretsFolder.of(home / "broker").ca_pem if self.secure else None,
        )


def folder_of(home: Path, name: ServiceName) -> Path:
    """Return the folder of a service."""
    return services_folder(home) / name


def password_file(home: Path, name: ServiceName) -> Path:
    """Return where the password of a service's login is kept."""
    return folder_of(home, name) / "login.password"


def load(home: Path, name: ServiceName) -> ServiceState | None:
    """Return what a service was started with last; None if it never was."""
    path = folder_of(home, name) / _FILE
    safe, fix = "The service's data are untouched", f"Remove {path}, then run: penstock up"
    return state_file.load(path, SERVICE, ServiceState, safe=safe, fix=fix)


def local_service(home: Path, name: ServiceName) -> ServiceAddress:
    """Return the address of a service of this project; raise `NotFound` if it was never started."""
    known = load(home, name)
    if known is None:
        raise never_started(name)
    return known.address(home)


def never_started(name: ServiceName) -> NotFound:
    """Return the error for a service that is asked for where none was ever started."""
    called = {"connect": "Kafka Connect", "registry": "schema registry", "lineage": "lineage service"}.get(name, name)
    return NotFound(
        f"this project has no {called}", fix=f"Start one with: penstock up {name}; or name it in penstock.yaml"
    )
