"""The positions of all pipelines in a Delta table's log, which the library only tells to who knows their names."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from penstock.sinks.delta_commits import actions_in
from penstock.sinks.sink import Position

_LOG = "_delta_log"
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*?(parquet|json)")
_COMMIT = re.compile(r"(\d{20})\.json")
_OURS = "penstock/"


def positions_of_others(path: Path, pipeline: str) -> list[Position]:
    """Return where other pipelines stand, by the newest checkpoint and the commits since.

    Another sink of the same pipeline is what this one was called before.
    """
    found: dict[str, int] = {}
    files = sorted((path / _LOG).iterdir())
    checkpoints = [(match[1], file) for file in files if (match := _CHECKPOINT.fullmatch(file.name))]
    newest = max((version for version, _ in checkpoints), default="")
    for version, file in checkpoints:
        if version == newest:
            found |= {each["appId"]: each["version"] for each in _moves(file)}
    for file in files:
        match = _COMMIT.fullmatch(file.name)
        if match is not None and match[1] > newest:
            found |= {each["appId"]: each["version"] for each in _moves(file)}
    ours = {app.removeprefix(_OURS): version for app, version in found.items() if app.startswith(_OURS)}
    return Position.of_others(ours, pipeline)


def _moves(file: Path) -> Iterator[dict[str, Any]]:
    """Return the transaction actions of a commit or a checkpoint."""
    if file.suffix == ".json":
        yield from (each["txn"] for each in actions_in(file.read_bytes()) if "txn" in each)
    elif "txn" in pq.read_schema(file).names:
        yield from filter(None, pq.read_table(file, columns=["txn"]).column("txn").to_pylist())
