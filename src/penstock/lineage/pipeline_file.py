"""The pipeline that comes with Penstock: from Kafka into the lineage store."""

from pathlib import Path
from typing import Any

import yaml

from penstock.lineage.store.address import StoreAddress, default_path
from penstock.private import write_private

SHIPPED = Path(__file__).with_name("lineage.yaml")
_HEAD = "# Written by `penstock lineage start`, every time. To change more than its options do, copy this file.\n"


def place(home: Path) -> Path:
    """Return where the pipeline's file is in a home folder."""
    return default_path(home).with_name("lineage.yaml")


def write(
    home: Path, address: StoreAddress, *, topics: list[str], pattern: str | None, batch: dict[str, int | str | None]
) -> Path:
    """Write the shipped pipeline with these settings into the home folder, and return the file. It holds no secret."""
    pipeline: dict[str, Any] = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    if pattern is not None:
        pipeline["source"] = {"pattern": pattern}
    elif topics:
        pipeline["source"] = {"topics": topics}
    pipeline["batch"] |= {name: value for name, value in batch.items() if value is not None}
    keys = address.model_dump(mode="json", exclude_none=True, include=set(StoreAddress.model_fields))
    if address.password is not None:
        keys["password"] = address.password.source
    pipeline["sinks"] = [{"type": "lineage", **keys}]
    path = place(home)
    write_private(path, (_HEAD + yaml.safe_dump(pipeline, sort_keys=False)).encode())
    return path
