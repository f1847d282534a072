"""The folders of tables nearby: what Tab offers, and what somebody may have meant who mistyped one."""

from collections.abc import Iterator
from pathlib import Path


def is_iceberg(path: Path) -> bool:
    """Return whether the folder holds an Iceberg table."""
    return any(path.glob("metadata/*.metadata.json")) and not (path / "_delta_log").is_dir()


def table_folders(base: Path) -> Iterator[str]:
    """Return the Delta and Iceberg tables in a folder and up to two below it, as they are named from there."""
    for depth in ("*", "*/*", "*/*/*"):
        found = {each.parent for each in base.glob(f"{depth}/_delta_log") if each.is_dir() and any(each.iterdir())}
        found |= {each.parent for each in base.glob(f"{depth}/metadata") if is_iceberg(each.parent)}
        names = sorted(each.relative_to(base) for each in found)
        yield from (str(each) for each in names if not any(part.startswith(".") for part in each.parts))
