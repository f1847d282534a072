"""Spark's answers about a pipeline's SQL, kept so that the next start may do without Spark.

The columns behind a step, and what its expressions are to a worker, depend on the columns before it, on the SQL and on
Spark, and on nothing else. An answer is found again by all of these; a file that is missing or damaged costs one start
of Spark.
"""

import base64
import hashlib
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pyarrow as pa

from penstock.delivery.durable import write_json
from penstock.worker.expressions import KINDS, Expression

_MOST = 1000
_RULES = 3
"""Raised when the set of expressions that workers evaluate changes: earlier answers are then void."""


class Analysis:
    """Spark's answers, cached in one file; without a file nothing is cached."""

    def __init__(self, path: Path | None, settings: Mapping[str, str]) -> None:
        self._path = path
        self._known_by = [version("penstock"), version("pyspark"), sorted(settings.items())]
        self._answers = _read(path)

    def columns(self, before: pa.Schema, asked: list[Any], ask: Callable[[], pa.Schema]) -> pa.Schema:
        """Return the columns after a piece of SQL; `ask` lets Spark work them out."""
        return _schema(self._answer(before, asked, lambda: base64.b64encode(ask().serialize()).decode()))

    def expressions(
        self, before: pa.Schema, texts: list[str], ask: Callable[[], list[Expression | str]]
    ) -> list[Expression | str]:
        """Return each expression as workers evaluate it, or why only Spark does; `ask` lets Spark work it out."""
        asked = ["expressions", _RULES, sorted(KINDS), texts]
        return _expressions(self._answer(before, asked, lambda: msgspec.json.encode(ask()).decode()))

    def _answer(self, before: pa.Schema, asked: list[Any], ask: Callable[[], str]) -> str:
        question = [*self._known_by, base64.b64encode(before.serialize()).decode(), asked]
        key = hashlib.sha256(orjson.dumps(question)).hexdigest()
        if key not in self._answers:
            self._answers = {**dict(list(self._answers.items())[1 - _MOST :]), key: ask()}
            if self._path is not None:
                write_json(self._path, self._answers)
        return self._answers[key]


def _schema(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.BufferReader(base64.b64decode(text)))


def _expressions(text: str) -> list[Expression | str]:
    return msgspec.json.decode(text, type=list[Expression | str])


def _read(path: Path | None) -> dict[str, str]:
    try:
        found = orjson.loads(path.read_bytes()) if path is not None else {}
        for each in found.values():
            _expressions(each) if each.startswith("[") else _schema(each)
    except (OSError, ValueError, AttributeError, TypeError, pa.ArrowException):
        return {}
    return dict(found)
