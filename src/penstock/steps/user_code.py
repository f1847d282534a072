"""The user's own code in steps: finding it, opening it inside of a task, and what is known of it when it fails."""

import difflib
import importlib
import os
import struct
import sys
import sysconfig
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import Any, Self

import pyarrow as pa

from penstock.errors import BadInput
from penstock.record.columns import user_columns, whole_schema
from penstock.record.decoded import RecordError, record_error
from penstock.record.schema import parse
from penstock.steps.step import StepContext

_LIBRARY = Path(sysconfig.get_path("stdlib"))
HANDLERS = "-handlers"
"""Ends the name of the notes that a class of handlers keeps, for a Python step before it keeps notes, too."""


def columns_after(returns: str | None, schema: pa.Schema) -> pa.Schema:
    """Return the user's columns behind a step: those that it says it returns, or those that went in."""
    return parse(returns) if returns else pa.schema([schema.field(name) for name in user_columns(schema.names)])


def load_function(reference: str, folder: Path | None) -> Callable[..., Any]:
    """Import `module:function`, from beside the pipeline file or from anywhere Python looks."""
    if folder is not None and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    module, _, name = reference.partition(":")
    try:
        function = getattr(importlib.import_module(module), name, None)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module runs when it is imported, and may raise anything
        reason = f"{type(error).__name__}: {error}{line_of(error)}"
        raise BadInput(f"the step '{reference}' cannot be imported: {reason}") from None
    if not callable(function):
        known = [each for each, value in vars(sys.modules[module]).items() if callable(value)]
        nearest = difflib.get_close_matches(name, known, n=1)
        meant = f"; did you mean '{nearest[0]}'?" if nearest else ""
        raise BadInput(f"the module '{module}' has no function '{name}'{meant}")
    return function  # type: ignore[no-any-return]


def own_modules() -> list[ModuleType]:
    """Return the modules in memory that neither Python nor an installed package has brought: the user's own."""
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is None or name.partition(".")[0] in {"__main__", "penstock"}:
            continue
        path = Path(file)
        if not path.is_relative_to(_LIBRARY) and not {"site-packages", "dist-packages"} & set(path.parts):
            found.append(module)
    return found


class UserTask(ABC):
    """Runs the user's code inside of a task, with a notebook of the record at hand. Each task loads the code itself."""

    notes_suffix = ""

    def __init__(self, reference: str, columns: pa.Schema, context: StepContext) -> None:
        self._reference = reference
        self._columns = columns
        self._folder = context.folder
        self._notes = str(context.notes)
        self.schema = whole_schema(columns)

    def __call__(self, batches: Iterator[pa.RecordBatch], index: int, /) -> Iterator[pa.RecordBatch]:
        """Return what the code makes of the rows of one offset range."""
        loaded = self.load()
        Path(self._notes).mkdir(parents=True, exist_ok=True)
        with Notebook(Path(self._notes) / f"{index}{self.notes_suffix}") as notebook:
            yield from self.run(loaded, batches, notebook)

    def load(self) -> Any:
        """Return the code, ready to be called."""
        return load_function(self._reference, self._folder)

    @abstractmethod
    def run(self, loaded: Any, batches: Iterator[pa.RecordBatch], notebook: "Notebook") -> Iterator[pa.RecordBatch]:
        """Return what the code makes of the rows; the record at hand is noted before each call."""


class Notebook:
    """Remembers the record at hand in a file, which outlives a worker that dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1

    def __enter__(self) -> Self:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        return self

    def note(self, offset: int | None) -> None:
        """Write down the offset of the record at hand; none if there are several."""
        os.pwrite(self._file, struct.pack("<q", -1 if offset is None else offset), 0)

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: object) -> None:
        os.close(self._file)
        if kind is None:
            self._path.unlink(missing_ok=True)


def noted(path: Path) -> int | None:
    """Read the record at hand when the worker died."""
    try:
        (offset,) = struct.unpack("<q", path.read_bytes())
    except (OSError, struct.error):
        return None
    return offset if offset >= 0 else None


def error_from(error: Exception, stage: str = "step") -> RecordError:
    """Describe what a user's code raised."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the function of a user's exception
        message = ""
    return record_error(name, message or name, stage)


def line_of(error: BaseException) -> str:
    """Return ` (rules.py, line 7)`: the last line of the user's own code on the way to an error, if there was one."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f" ({Path(error.filename).name}, line {error.lineno})"
    frames = [
        (Path(frame.f_code.co_filename), line)
        for frame, line in walk_tb(error.__traceback__)
        if not {"penstock", "site-packages", "dist-packages"} & set(Path(frame.f_code.co_filename).parts)
        and not Path(frame.f_code.co_filename).is_relative_to(_LIBRARY)
        and not frame.f_code.co_filename.startswith("<")
    ]
    return f" ({frames[-1][0].name}, line {frames[-1][1]})" if frames else ""
