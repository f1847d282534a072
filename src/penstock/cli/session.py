"""What every command starts with: the settings, and the cluster that they name."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from penstock.errors import Conflict

if TYPE_CHECKING:
    from penstock.broker.cluster import Cluster, OnProgress
    from penstock.config.settings import Settings
    from penstock.kafka.admin import Admin
    from penstock.kafka.connection import Connection


@dataclass
class Session:
    """The root options of one command line; everything else is looked up when a command needs it."""

    project_file: Path | None = None
    home: Path | None = None
    bootstrap: str | None = None
    user: str | None = None
    _settings: "Settings | None" = field(default=None, repr=False)

    @property
    def settings(self) -> "Settings":
        """Load the settings once."""
        if self._settings is None:
            from penstock.cli.output import say
            from penstock.config import settings

            self._settings = settings.load(
                project_file=self.project_file,
                home=self.home,
                bootstrap=self.bootstrap,
                user=self.user,
                on_command_line=True,
            )
            for file in self._settings.passed_over:
                say(
                    f"warning: {file} was ignored, because it or its folder belongs to another user;"
                    f" to use it anyway: --project {file}"
                )
        return self._settings

    def arguments(self) -> list[str]:
        """Return the root options for a process that needs the same settings; the home folder is passed separately."""
        project = self.settings.project_file
        named = {
            "--project": project.resolve() if project else None,
            "--bootstrap": self.bootstrap,
            "--user": self.user,
        }
        return [part for option, value in named.items() if value is not None for part in (option, str(value))]

    def cluster(self, on_progress: "OnProgress | None" = None) -> "Cluster":
        """Return the local cluster, whether or not it runs."""
        from penstock.broker.cluster import Cluster

        return Cluster(
            self.settings.home / "broker", self.settings.jars, on_progress=on_progress or (lambda _line: None)
        )

    def own_cluster(self, on_progress: "OnProgress | None" = None, *, may_make: bool = False) -> "Cluster":
        """Return the local cluster for a command that starts or stops it, or makes it."""
        if self.settings.external is not None:
            raise Conflict(
                f"the cluster at {self.settings.external.bootstrap_servers} is an external one:"
                " Penstock does not start or stop it",
                fix="Set cluster.type to local in penstock.yaml, or leave out --bootstrap",
            )
        if not may_make:
            self.settings.require_no_cluster_above()
        return self.cluster(on_progress)

    def connection(self) -> "Connection":
        """Return the connection to the cluster that is meant."""
        return self.settings.connection()

    def live_connection(self) -> "Connection":
        """Return the same, for a command that is of no use without Kafka: raise soon if this machine runs none.

        A client of Kafka would find that out, too, and take longer: elsewhere a server may just be slow.
        """
        from penstock.kafka.diagnose import explain_outage, is_reachable, require_kafka
        from penstock.loopback import is_loopback

        found = self.connection()
        hosts = [server.rpartition(":")[0].strip("[]") for server in found.bootstrap_servers.split(",")]
        if all(map(is_loopback, hosts)):
            if not is_reachable(found):
                error = explain_outage(found, "").error
                if self.settings.external is not None:  # `up` starts none where this one is named
                    error.fix = "Check the address, and whether it runs; name none to use the cluster of: penstock up"
                raise error
            if self.settings.external is not None:  # of one that is ours, more than that has been looked at
                require_kafka(found.bootstrap_servers)
        return found

    def admin(self) -> "Admin":
        """Open an admin connection."""
        from penstock.kafka.admin import Admin

        return Admin(self.live_connection())


def session(context: typer.Context) -> Session:
    """Return the session of a command."""
    return cast("Session", context.find_root().obj)
