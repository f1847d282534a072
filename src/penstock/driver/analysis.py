"""What Spark found out about a pipeline's SQL, kept for the next start, which may then do without Spark.

The columns behind a step depend on those before it, on the SQL and on Spark, and on nothing else. An answer is found
again by all of these; a file that is missing or damaged costs one start of Spark.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from penstock.delivery.durable import write_json

_MOST = 1000


class Analysis:
    """Answers of Spark's, in one file; without a file nothing is kept."""

    def __init__(self, path: Path | None, settings: Mapping[str, str]) -> None:
        self._path = path
        self._known_by = [version("penstock"), version("pyspark"), sorted(settings.items())]
        self._answers = _read(path)

    def columns(self, before: pa.Schema, asked: list[Any], ask: Callable[[], pa.Schema]) -> pa.Schema:
        """Return the columns behind a piece of SQL; `ask` lets Spark find out."""
        question = [*self._known_by, base64.b64encode(before.serialize()).decode(), asked]
        key = hashlib.sha256(orjson.dumps(question)).hexdigest()
        if key not in self._answers:
            found = base64.b64encode(ask().serialize()).decode()
            self._answers = {**dict(list(self._answers.items())[1 - _MOST :]), key: found}
            if self._path is not None:
                write_json(self._path, self._answers)
        return pa.ipc.read_schema(pa.BufferReader(base64.b64decode(self._answers[key])))


def _read(path: Path | None) -> dict[str, str]:
    try:
        found = orjson.loads(path.read_bytes()) if path is not None else {}
        for each in found.values():
            pa.ipc.read_schema(pa.BufferReader(base64.b64decode(each)))
    except (OSError, ValueError, AttributeError, TypeError, pa.ArrowException):
        return {}
    return dict(found)
