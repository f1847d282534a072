"""The user's own code in steps: finding it, loading it inside a task, and describing its failures."""

import importlib
import os
import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Self

import pyarrow as pa
from pydantic import AfterValidator, WithJsonSchema

from penstock.errors import BadInput
from penstock.record.columns import user_columns, whole_schema
from penstock.record.decoded import RecordError, record_error
from penstock.record.schema import parse
from penstock.steps.code_line import code_line, in_brackets
from penstock.steps.step import StepContext
from penstock.steps.user_modules import first_in, is_namesake
from penstock.wording import nearest

_NAME = r"[A-Za-z_][\w.]*:[A-Za-z_]\w*"


def _code_name(text: str) -> str:
    if re.fullmatch(_NAME, text) is None:
        raise ValueError("write it as module:name, such as rules:clean for the function clean in rules.py")
    return text


CodeName = Annotated[str, AfterValidator(_code_name), WithJsonSchema({"type": "string", "pattern": f"^{_NAME}$"})]
"""The name of a function or class of the user, as `module:name`."""

HANDLERS = "-handlers"
"""Ends the name of the notes that a class of handlers keeps, for a Python step before it keeps notes, too."""


def columns_after(returns: str | None, schema: pa.Schema) -> pa.Schema:
    """Return the user's columns behind a step: those that it says it returns, or those that went in."""
    return parse(returns) if returns else pa.schema([schema.field(name) for name in user_columns(schema.names)])


def load_function(reference: str, folder: Path) -> Callable[..., Any]:
    """Import `module:function`, from beside the pipeline file or from anywhere Python looks.

    If another pipeline of this process has a module of that name, each gets its own.
    """
    module, _, name = reference.partition(":")
    with first_in(folder):
        try:
            loaded = importlib.import_module(module)
            function = getattr(loaded, name, None)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a module runs when it is imported, and may raise anything
            reason = f"{type(error).__name__}: {error}{in_brackets(code_line(error))}"
            raise BadInput(f"the step '{reference}' cannot be imported: {reason}") from None
        if is_namesake(module, folder):
            raise BadInput(
                f"the module '{module}' beside the pipeline file is hidden by another one of that name,"
                f" {getattr(loaded, '__file__', None) or 'which is part of Python'}",
                fix="Rename yours",
            )
    if not callable(function):
        known = [each for each, value in vars(loaded).items() if callable(value)]
        close = nearest(name, known)
        meant = f"; did you mean '{close}'?" if close else ""
        raise BadInput(f"the module '{module}' has no function '{name}'{meant}")
    return function  # type: ignore[no-any-return]


class UserTask(ABC):
    """Runs the user's code inside a task, and notes the current record. Each task loads the code itself."""

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
        with NoteFile(Path(self._notes) / f"{index}{self.notes_suffix}") as note_file:
            yield from self.run(loaded, batches, note_file)

    def load(self) -> Any:
        """Return the code, ready to be called."""
        folder = self._folder if isinstance(self._folder, Path) else self._folder.path
        return load_function(self._reference, folder)

    @abstractmethod
    def run(self, loaded: Any, batches: Iterator[pa.RecordBatch], note_file: "NoteFile") -> Iterator[pa.RecordBatch]:
        """Return what the code makes of the rows; the current record is noted before each call."""


class NoteFile:
    """Keeps the current record in a file, which survives the death of the worker."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1

    def __enter__(self) -> Self:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        return self

    def note(self, offset: int | None) -> None:
        """Write down the offset of the current record; none if there are several."""
        os.pwrite(self._file, struct.pack("<q", -1 if offset is None else offset), 0)

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: object) -> None:
        os.close(self._file)
        if kind is None:
            self._path.unlink(missing_ok=True)


def noted(path: Path) -> int | None:
    """Read the current record when the worker died."""
    try:
        (offset,) = struct.unpack("<q", path.read_bytes())
    except (OSError, struct.error):
        return None
    return offset if offset >= 0 else None


def error_from(error: Exception, stage: str = "step") -> RecordError:
    """Describe what the user's code raised, and where."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the function of a user's exception
        message = ""
    return record_error(name, message or name, stage, code_line(error))
