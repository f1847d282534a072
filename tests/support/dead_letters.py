"""Dead letters of a pipeline under test: which are open, and sending them through a file again."""

from pathlib import Path
from typing import Any

import yaml

from penstock.config import settings
from penstock.delivery.ledger import Replay
from penstock.delivery.selection import Filter, select
from penstock.operate import replay as replays
from penstock.operate.status import Status

from support.pipelines import Lab

SHARE = "SELECT *, 100 / id AS share FROM events"
FIXED = "SELECT *, CASE WHEN id = 0 THEN 0D ELSE 100 / id END AS share FROM events"


def write(lab: Lab, document: dict[str, Any], name: str = "pipeline.yaml") -> Path:
    file = lab.folder / name
    file.write_text(yaml.safe_dump(document))
    return file


def open_letters(lab: Lab, pipeline: str, **wanted: Any) -> list[tuple[int, str, int]]:
    """Return offset, error and attempt of each letter that is not settled."""
    found = select(lab.connection, Filter(pipeline=pipeline, **wanted))
    return sorted((letter.offset, letter.error, letter.attempt) for letter in found)


def replay(lab: Lab, file: Path, **wanted: Any) -> tuple[Replay, Status]:
    """Send dead letters through a file again, on the Spark that runs already."""
    given = settings.load(home=lab.kafka.home)
    letters = list(select(lab.connection, Filter(**wanted)))
    begun = replays.begin(given, letters, file)
    return begun, replays.run(given, begun)
