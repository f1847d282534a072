"""What a service is prepared with: the project's folder, the jars, the cluster."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from penstock.broker.certificates import Certificates
from penstock.broker.cluster import Cluster
from penstock.config.local_services import folder_of, password_file
from penstock.config.secrets_folder import SecretsFolder, write_password
from penstock.config.service_names import ServiceName
from penstock.config.settings import Settings
from penstock.jvm import jars
from penstock.kafka import cluster as kafka_cluster
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection

OnProgress = Callable[[str], None]
_MOST_REPLICAS = 3


@dataclass(frozen=True)
class ServiceContext:
    """What a service may use while it is prepared and started."""

    home: Path
    jar_folder: Path
    connection: Connection
    nodes: int
    secure: bool
    on_progress: OnProgress = lambda _line: None
    root: tuple[str, ...] = ()
    """The options of this command line, for commands of ours that must see the same settings."""
    variables: tuple[str, ...] = ()
    """The variables that say settings, and those that hold secrets which the settings name; by their names."""
    has_logins_elsewhere: bool = False
    """Whether the settings have logins besides that of Kafka: for further clusters, or a registry."""

    @classmethod
    def of(cls, settings: Settings, root: Iterable[str], on_progress: OnProgress = lambda _line: None) -> Self:
        """Return the context of a project, whose cluster has to run."""
        cluster = Cluster(settings.home / "broker", settings.jars)
        if settings.external is not None:
            nodes, secure = len(kafka_cluster.describe(Admin(settings.external)).nodes), False
        else:
            settings.require_no_cluster_above()
            state = cluster.existing()
            nodes, secure = len(state.nodes), state.secure
        return cls(
            home=settings.home,
            jar_folder=settings.jars,
            connection=settings.external or cluster.connection(),
            nodes=nodes,
            secure=secure,
            on_progress=on_progress,
            root=tuple(root),
            variables=settings.variables(),
            has_logins_elsewhere=settings.has_logins_elsewhere,
        )

    def folder(self, name: ServiceName) -> Path:
        """Return the folder of a service."""
        return folder_of(self.home, name)

    @property
    def replicas(self) -> int:
        """Return how many replicas the topics of services have."""
        return min(_MOST_REPLICAS, self.nodes)

    @property
    def secrets(self) -> SecretsFolder:
        """Return the secrets of the cluster, its CA among them."""
        return SecretsFolder.of(self.home / "broker")

    def fetching(self, what: str) -> jars.Progress:
        """Return what tells how far the fetching of jars is."""
        return jars.progress_lines(what, self.on_progress)

    def certificate(self, name: ServiceName, host: str) -> Path:
        """Return the certificate of a service with its key, signed by the cluster's CA; made once."""
        return Certificates(self.secrets).ensure_service(name, host)

    def login(self, name: ServiceName) -> Path:
        """Return the file with the password of a service's login; generated once."""
        path = password_file(self.home, name)
        if not path.exists():
            write_password(path)
        return path
