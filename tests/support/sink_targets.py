"""Targets of sinks of every kind, each with a reader of its own."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.operate import repair

from support.pipelines import Lab


@dataclass(frozen=True)
class Target:
    """Where a sink writes to, and a reader of it that knows nothing of positions."""

    sink: dict[str, Any]
    read: Callable[[], list[int]]

    def named(self, name: str) -> dict[str, Any]:
        return {**self.sink, "name": name}

    @property
    def ids(self) -> list[int]:
        """The ids that are there, sorted; one that is there twice stands twice."""
        return sorted(self.read())


def ids_of_lines(folder: Path) -> list[int]:
    lines = (line for file in folder.glob("*.jsonl.gz") for line in gzip.decompress(file.read_bytes()).splitlines())
    return [json.loads(line)["id"] for line in lines]


def rebuild(lab: Lab, topic: str, *sinks: dict[str, Any]) -> None:
    with lab.runner(lab.spec(topic, sinks=list(sinks))) as runner:
        repair.rebuild(runner)


def run(lab: Lab, topic: str, *sinks: dict[str, Any]) -> None:
    lab.run(lab.spec(topic, sinks=list(sinks)))
