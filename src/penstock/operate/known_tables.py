"""The landed tables of a project: those in its folder, and those that its pipelines write to elsewhere."""

from dataclasses import dataclass, field
from pathlib import Path

from penstock.config.settings import HOME_NAME, Settings
from penstock.errors import NotFound
from penstock.operate.known_specs import known_specs
from penstock.sinks.delta_table import is_table
from penstock.sinks.table_folders import is_iceberg, table_folders


@dataclass(frozen=True)
class KnownTable:
    """A table, and who writes to it."""

    name: str
    """Its folder, as it is named from the project's."""
    path: Path
    pipelines: list[str] = field(default_factory=list)


def known_tables(settings: Settings) -> list[KnownTable]:
    """Return every table that is there, by name."""
    base = _project_folder(settings)
    found = {(base / name).resolve(): KnownTable(name, base / name) for name in table_folders(base)} if base else {}
    for spec in known_specs(settings):
        for sink in spec.sinks:
            target = sink.target()
            if target is None or target.kind != "folder":
                continue
            path = Path(target.name)
            if not (is_iceberg(path) or is_table(path)):
                continue
            known = found.setdefault(path, KnownTable(_named(path, base), path))
            if spec.name not in known.pipelines:
                known.pipelines.append(spec.name)
    return sorted(found.values(), key=lambda each: each.name)


def known_table(settings: Settings, name: str) -> KnownTable:
    """Return a table by its name; no other folder of this machine can be named."""
    for each in known_tables(settings):
        if each.name == name:
            return each
    raise NotFound(f"there is no table '{name}' here", fix="A `delta` or `iceberg` sink makes one with its first batch")


def _project_folder(settings: Settings) -> Path | None:
    """Return the folder that a project's tables are in; None where only a home folder is named."""
    if settings.project_file is not None:
        return settings.project_file.resolve().parent
    return settings.home.parent if settings.home.name == HOME_NAME else None


def _named(path: Path, base: Path | None) -> str:
    return str(path.relative_to(base)) if base is not None and path.is_relative_to(base) else str(path)
