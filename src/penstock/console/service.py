"""What the routes work with: the settings, the cluster, and who is let in."""

import threading
from contextlib import suppress
from dataclasses import dataclass, field

from fastapi import Request

from penstock.broker.cluster import Cluster
from penstock.config.settings import Settings
from penstock.console.audit import TOPIC as AUDIT
from penstock.console.audit import Audit
from penstock.console.commands import Commands
from penstock.console.decoding import Decoding
from penstock.console.favourites import Favourites
from penstock.console.file_pipelines import FilePipelines
from penstock.console.kafka_side import KafkaSide
from penstock.console.lab_catalog import Catalog
from penstock.console.lab_cluster import RunClusters
from penstock.console.lab_runs import LabRuns
from penstock.console.letters import Letters
from penstock.console.masks import Masks
from penstock.console.open_counts import OpenCounts
from penstock.console.quotas import Quotas
from penstock.console.records import content_of
from penstock.console.simulator import BackgroundGames
from penstock.console.sizes import Sizes
from penstock.console.slots import Slots
from penstock.console.users import Role, Users
from penstock.errors import Conflict, NotFound, PenstockError
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.topic_spec import CONNECT_GROUP, connect_topics
from penstock.lineage.sign_in.tokens import TokenKey
from penstock.lineage.sign_in.tries import Tries
from penstock.operate.range_replay import RangeReplay

MOST_DOWNLOADS = 8
"""At a time: each holds a client of Kafka with what it has read ahead, for as long as somebody takes."""


@dataclass(frozen=True)
class SignIn:
    """How people and programs show who they are."""

    key: TokenKey
    users: Users
    tries: Tries = field(default_factory=Tries)


class Console:
    """One console. Kafka may be away when it begins, go, and come back: each request looks again."""

    def __init__(
        self,
        settings: Settings,
        root: list[str],
        *,
        sign_in: SignIn | None = None,
        role: Role = "admin",
        has_downloads: bool = True,
        lets_all_in: bool = False,
    ) -> None:
        self.settings = settings
        self.root = root
        """The root options of the command line, for processes that must see the same settings."""
        self.sign_in = sign_in
        """None: everybody on this machine is let in, with the role below."""
        self._lets_all_in = lets_all_in
        """Whether somebody has said so, and it is not only that there was no login to act by."""
        self.role: Role = role
        self.has_downloads = has_downloads
        """Whether records can be downloaded as a file."""
        self.downloads = threading.BoundedSemaphore(MOST_DOWNLOADS)
        rules = settings.home / "console" / "masks.yaml"
        hidden = {AUDIT, *(connect_topics(group)["config"] for group in (settings.connect_group, CONNECT_GROUP))}
        self.masks = Masks(rules, Decoding(settings).content, hidden)
        self.own = KafkaSide("", self.connection, self.masks)
        # Ids of schemas are those of the project's own registry: elsewhere they mean something else, or nothing.
        elsewhere = Masks(rules, content_of, hidden)
        self.clusters = {
            name: KafkaSide(name, each.connection, elsewhere) for name, each in settings.project.clusters.items()
        }
        """Further clusters, by name."""
        self.letters = Letters(self.connection, self.admin, self.masks)
        self.open_counts = OpenCounts(self.letters)
        self.sizes = Sizes(self.cluster)
        self.audit = Audit(self.connection, self.admin)
        self.favourites = Favourites(settings.home / "console")
        self.quotas = Quotas(self.admin, settings.jars)
        self.commands = Commands(settings, root)
        self.file_pipelines = FilePipelines(settings)
        self.planned_replays: dict[str, RangeReplay] = {}
        """Plans that nobody has carried out yet, the newest last."""
        self.slots = Slots()
        self.lab_catalog = Catalog()
        self.lab_runs = LabRuns(settings, self.lab_catalog)
        self.lab_clusters = RunClusters(settings.jars)
        self.games = BackgroundGames(settings, root, self.admin)

    def why_closed(self) -> str | None:
        """Return why it answers nobody; None if it does.

        One that was started before a cluster was made secure would be its administrator for everybody on this machine.
        """
        if self.sign_in is not None or self._lets_all_in:
            return None
        with suppress(PenstockError):  # what cannot be read is told by whoever needs it
            if self.settings.has_login or self.settings.has_logins_elsewhere:
                return "since this console was started it has got a login: start it again, so that people sign in"
        return None

    def connection(self) -> Connection:
        """Return the connection to the cluster."""
        return self.settings.connection()

    def admin(self) -> Admin:
        """Return the one admin client of the project's own cluster."""
        return self.own.admin()

    def kafka(self, name: str) -> KafkaSide:
        """Return a cluster by its name; the project's own has none."""
        if not name:
            return self.own
        if name not in self.clusters:
            raise NotFound(f"there is no cluster '{name}'", fix="Name it as `clusters:` in penstock.yaml")
        found = self.clusters[name]
        found.begin()  # not before somebody asks: there may be many
        return found

    def cluster(self) -> Cluster:
        """Return the local cluster, whether or not it runs; raise `Conflict` if somebody else runs the one meant."""
        if self.settings.external is not None:
            raise Conflict(
                f"the cluster at {self.settings.external.bootstrap_servers} is an external one:"
                " Penstock does not start or stop it",
                safe="Nothing was changed",
            )
        return Cluster(self.settings.home / "broker", self.settings.jars)


def console_of(request: Request) -> Console:
    """Return the console that a request is for."""
    console: Console = request.app.state.console
    return console
