"""Settings: where files and servers are, and which source of a setting wins.

The one place that decides. From strongest to weakest:

1. an option on the command line (`--bootstrap`, `--home`, `--project`, `--user`);
2. the environment: PENSTOCK_BOOTSTRAP_SERVERS, PENSTOCK_SECURITY_<FIELD>, PENSTOCK_HOME, PENSTOCK_PROJECT,
   PENSTOCK_USER, PENSTOCK_CACHE, PENSTOCK_REGISTRY_URL;
3. penstock.yaml, in the working folder or the nearest folder above it. One that belongs, or whose folder belongs, to
   neither the user nor root is passed over; one of theirs that others may write to is refused;
4. the defaults: a local cluster of one node on 127.0.0.1:9092, its data in `.penstock/` beside penstock.yaml
   (without one, in the working folder), under the same condition.
"""

import os
import re
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from penstock.config import cluster_state, local_services, project
from penstock.config.complaints import in_words
from penstock.config.local_connection import DEFAULT_PORT, local_connection, require_own
from penstock.errors import BadInput, NotFound
from penstock.kafka.connection import Connection
from penstock.kafka.security import Plaintext, Security
from penstock.kafka.topic_spec import CONNECT_GROUP
from penstock.private import distrust, is_strangers, make_missing_private
from penstock.schemas.registry import Registry

HOME_NAME = ".penstock"
_NAMED_VARIABLE = re.compile(r"\benv:([A-Za-z_]\w*)")
_SERVERS = "PENSTOCK_BOOTSTRAP_SERVERS"
_SECURITY_PREFIX = "PENSTOCK_SECURITY_"
_REGISTRY_URL = "PENSTOCK_REGISTRY_URL"
_REGISTRY_PLAIN = {
    "username": "PENSTOCK_REGISTRY_USERNAME",
    "ca_file": "PENSTOCK_REGISTRY_CA_FILE",
    "certificate_file": "PENSTOCK_REGISTRY_CERTIFICATE_FILE",
    "key_file": "PENSTOCK_REGISTRY_KEY_FILE",
}
_REGISTRY_SECRETS = {
    "password": "PENSTOCK_REGISTRY_PASSWORD",
    "token": "PENSTOCK_REGISTRY_TOKEN",
    "key_password": "PENSTOCK_REGISTRY_KEY_PASSWORD",
}


@dataclass(frozen=True)
class Settings:
    """What one run of Penstock works with."""

    home_folder: Path
    cache: Path
    project_file: Path | None
    project: project.Project
    external: Connection | None
    user: str | None
    home_is_named: bool = True
    passed_over: tuple[Path, ...] = ()
    """Project files of strangers, which were nearer than the one that was read."""
    on_command_line: bool = False
    """Whether remedies name options of the command line, or arguments of Python."""

    @property
    def home(self) -> Path:
        """The folder for data and secrets; unless it was named, it must not belong to a stranger."""
        if not self.home_is_named:
            parent = self.home_folder.parent
            require_trusted(parent, self._named("home", self.home_folder))
            if parent.stat().st_mode & (stat.S_IWOTH | stat.S_IWGRP):
                # Others may make it, too, as in /tmp: it is made before anybody relies on whose it is.
                make_missing_private(self.home_folder)
            if os.path.lexists(self.home_folder):
                require_trusted(self.home_folder, self._named("home", self.home_folder))
        return self.home_folder.resolve()

    def _named(self, option: str, value: object) -> str:
        return _written(option, value, on_command_line=self.on_command_line)

    def connection(self) -> Connection:
        """Return the connection to the cluster that is meant, external or local."""
        if self.external is not None:
            return self.external
        return self._local_connection

    def require_no_cluster_above(self) -> None:
        """Raise `NotFound` if there is no cluster here, and one that a folder above has is probably meant."""
        if self.home_is_named or self.project_file is not None or _has_cluster(self.home):
            return
        for folder in self.home_folder.absolute().parent.parents:
            above = folder / HOME_NAME
            if not is_strangers(above) and _has_cluster(above):
                raise NotFound(
                    f"there is no cluster in {self.home_folder.parent}, but there is one in {folder}",
                    fix=f"Change to that folder, or name it: {self._named('home', above)}."
                    " To make another one here: penstock up",
                )

    @cached_property
    def _local_connection(self) -> Connection:
        self.require_no_cluster_above()
        cluster = self.project.cluster
        port = cluster.port if isinstance(cluster, project.LocalCluster) else None
        folder = self.home / "broker"
        connection = local_connection(folder, self.user, planned_port=port or DEFAULT_PORT)
        require_own(folder, connection, lambda server: self._named("bootstrap", server))
        return connection

    def registry(self, address: str | None = None) -> Registry:
        """Return the schema registry that is meant: a named one, the environment's, the project's, or its service."""
        named = address or os.environ.get(_REGISTRY_URL)
        if named:
            return _registry_at(named)
        if self.project.registry is not None and not self.project.registry.is_project:
            return self.project.registry
        started = local_services.load(self.home, "registry")
        if started is not None:
            return Registry(**dict(started.address(self.home)))
        raise NotFound(
            "no schema registry is named",
            fix="Start one with: penstock up --registry; or name one with --registry URL, as `registry:` in"
            " penstock.yaml, or in PENSTOCK_REGISTRY_URL",
        )

    def variables(self) -> tuple[str, ...]:
        """Return the names of the environment's variables that a process with these settings needs: no others."""
        named = set(_NAMED_VARIABLE.findall(self.project.model_dump_json()))
        return tuple(name for name in os.environ if name.startswith("PENSTOCK_") or name in {*named, "XDG_CACHE_HOME"})

    @property
    def has_login(self) -> bool:
        """Whether these settings have a login for Kafka, which is not contacted."""
        if self.external is not None:
            return self.external.knows_clients
        known = cluster_state.load(self.home / "broker")
        return known is not None and known.secure

    @property
    def has_logins_elsewhere(self) -> bool:
        """Whether these settings have a login for a further cluster, or for the registry."""
        if any(each.knows_clients for each in self.project.clusters.values()):
            return True
        try:
            return self.registry().knows_clients
        except (NotFound, BadInput):  # there is none, or none that can be used
            return False

    @property
    def connect_group(self) -> str:
        """The group of the project's Kafka Connect, by which its topics are called."""
        connect = self.project.services.connect
        return CONNECT_GROUP if connect is None else connect.group

    @property
    def jars(self) -> Path:
        """The jars, shared by all projects of this user."""
        return self.cache / "jars"


def load(
    *,
    project_file: str | Path | None = None,
    home: str | Path | None = None,
    bootstrap: str | None = None,
    user: str | None = None,
    on_command_line: bool = False,
) -> Settings:
    """Settle every setting by the order above; remedies are written for Python, or for the command line."""
    # An empty variable counts as unset.
    environment = {name: value for name, value in os.environ.items() if value}
    # Misspelt and passed over, it would send records to another cluster than the one that is meant.
    if misspelt := next(
        (each for each in environment if each.startswith(_SERVERS.removesuffix("_SERVERS")) and each != _SERVERS), None
    ):
        raise BadInput(f"there is no variable {misspelt}", fix=f"Did you mean {_SERVERS}?")
    named = project_file or environment.get("PENSTOCK_PROJECT")
    file, passed_over = (Path(named), ()) if named else _nearest_project_file(on_command_line=on_command_line)
    loaded = project.load(file) if file else project.Project()
    base = file.parent if file else Path.cwd()
    named_home = home or environment.get("PENSTOCK_HOME")
    said_by = ("--bootstrap" if on_command_line else "bootstrap") if bootstrap else _SERVERS
    external = _external(bootstrap or environment.get(_SERVERS), said_by, loaded)
    return Settings(
        home_folder=Path(named_home) if named_home else base / HOME_NAME,
        home_is_named=bool(named_home),
        passed_over=passed_over,
        cache=cache_folder(),
        project_file=file,
        project=loaded,
        external=external,
        user=user or environment.get("PENSTOCK_USER"),
        on_command_line=on_command_line,
    )


def _has_cluster(home: Path) -> bool:
    return (home / "broker" / cluster_state.FILE).is_file()


def connection(
    *,
    project: str | Path | None = None,
    home: str | Path | None = None,
    bootstrap: str | None = None,
    user: str | None = None,
) -> Connection:
    """Return the connection that the command line would use; the arguments are its options of these names."""
    return load(project_file=project, home=home, bootstrap=bootstrap, user=user).connection()


def _nearest_project_file(*, on_command_line: bool) -> tuple[Path | None, tuple[Path, ...]]:
    """Find the file, and nearer ones that belong to somebody else; it decides where data and logins go.

    Anybody can put one into /tmp, which must not keep others from working. One of ours that others may change was
    meant, so to go on without it would be another cluster than the user thinks.
    """
    here = Path.cwd()
    candidates = (folder / project.FILE_NAME for folder in (here, *here.parents))
    passed_over = []
    for found in (path for path in candidates if path.is_file()):
        if is_strangers(found) or is_strangers(found.parent):
            passed_over.append(found)
            continue
        for place in (found, found.parent):
            require_trusted(place, _written("project", found, on_command_line=on_command_line))
        return found, tuple(passed_over)
    return None, tuple(passed_over)


def _written(option: str, value: object, *, on_command_line: bool) -> str:
    """Write an option as it is typed for a command, or for `penstock.connection`."""
    return f"--{option} {value}" if on_command_line else f'penstock.connection({option}="{value}")'


def require_trusted(place: Path, option: str = "", *, safe: str = "It was not used") -> None:
    """Refuse a file or folder that nobody has named and that somebody else could have put there."""
    if (why := distrust(place)) is not None:
        fix = f"If it is meant: {option}" if option else ""
        raise BadInput(f"{place} {why}, so it is not trusted", safe=safe, fix=fix)


def cache_folder() -> Path:
    """Return the folder of what all projects of this user share and what can be downloaded again."""
    named, base = os.environ.get("PENSTOCK_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(named) if named else (Path(base) if base else Path.home() / ".cache") / "penstock"


def _external(bootstrap: str | None, said_by: str, loaded: project.Project) -> Connection | None:
    """Return the external cluster that is meant, or None for the local one; complaints name what says the address."""
    named = loaded.cluster.connection() if isinstance(loaded.cluster, project.ExternalCluster) else None
    security = _security_from_environment()
    if bootstrap is None and named is None:
        if security is not None:
            raise BadInput(
                f"{_SECURITY_PREFIX}TYPE is set, but no external cluster is named",
                fix=f"Set {_SERVERS} too",
            )
        return None
    try:
        return Connection(
            bootstrap_servers=bootstrap or (named.bootstrap_servers if named else ""),
            security=security or (named.security if named else Plaintext()),
            client_settings=named.client_settings if named else {},
        )
    except ValidationError as error:
        problem = error.errors(include_input=False)[0]
        place = f"{said_by}: " if bootstrap and "bootstrap_servers" in problem["loc"] else ""
        raise BadInput(place + in_words(problem)) from None


def _registry_at(address: str) -> Registry:
    """Return a registry by its address; its login, if there is one, is that of the environment."""
    fields: dict[str, str] = {"url": address}
    for name, variable in _REGISTRY_PLAIN.items():
        if value := os.environ.get(variable):
            fields[name] = value
    for name, variable in _REGISTRY_SECRETS.items():
        if os.environ.get(variable):
            fields[name] = f"env:{variable}"
    try:
        return Registry.model_validate(fields)
    except ValidationError as error:
        raise BadInput(f"the schema registry: {in_words(error.errors(include_input=False)[0])}") from None


def _security_from_environment() -> Security | None:
    """Read PENSTOCK_SECURITY_TYPE and its companions; a secret's variable is named, its value is not read here."""
    names = [name for name, value in os.environ.items() if name.startswith(_SECURITY_PREFIX) and value]
    if not names:
        return None
    fields = {name.removeprefix(_SECURITY_PREFIX).lower(): os.environ[name] for name in names}
    for secret in {"password", "key_password"} & fields.keys():
        fields[secret] = f"env:{_SECURITY_PREFIX}{secret.upper()}"
    try:
        security: Security = TypeAdapter(Security).validate_python(fields)
    except ValidationError as error:
        problem = error.errors(include_input=False)[0]
        field = str(problem["loc"][-1]).upper() if problem["loc"] else "TYPE"
        raise BadInput(f"{_SECURITY_PREFIX}{field}: {in_words(problem)}") from None
    return security
