"""The line of the user's code that an error came from, as `rules.py:7: return 100 / row["count"]`.

It is the last line in the traceback that belongs to neither Python, nor an installed package, nor Penstock.
Files are named from the folder that Python found them in, so that a dead letter tells nothing of the machine.
"""

import linecache
import re
import sys
import sysconfig
from functools import cache
from pathlib import Path
from traceback import walk_tb

_LIBRARY = Path(sysconfig.get_path("stdlib"))
_PENSTOCK = Path(__file__).resolve().parent.parent
_INSTALLED = {"site-packages", "dist-packages", "pyspark", "pyspark.zip"}
_LONGEST_LINE = 200
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in .*)?\n(?P<text>[ \t]+\S.*)?', re.MULTILINE)


def is_users(file: Path) -> bool:
    """Return whether a module's file is the user's own."""
    is_brought = file.is_relative_to(_LIBRARY) or file.is_relative_to(_PENSTOCK) or _INSTALLED & set(file.parts)
    return not is_brought and not str(file).startswith("<")


def code_line(error: BaseException) -> str | None:
    """Return the line of the user's code that raised an error; None if the user's code was not involved."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return _shown(error.filename, error.lineno, error.text or "")
    frames = [
        (frame, line) for frame, line in walk_tb(error.__traceback__) if _name_of(frame.f_code.co_filename) is not None
    ]
    if not frames:
        return None
    frame, line = frames[-1]
    file = frame.f_code.co_filename
    linecache.checkcache(file)
    return _shown(file, line, linecache.getline(file, line, frame.f_globals))


def code_line_in(text: str) -> str | None:
    """Return the same from a traceback that came as text, as from a worker of Spark; of several, the last."""
    frames = [each for each in _FRAME.finditer(text) if _name_of(each["file"]) is not None]
    return _shown(frames[-1]["file"], int(frames[-1]["line"]), frames[-1]["text"] or "") if frames else None


def in_brackets(line: str | None) -> str:
    """Return what follows a message: nothing, if there is no such line."""
    return f" ({line})" if line else ""


def _shown(file: str, line: int, text: str) -> str:
    cut = text.strip()[:_LONGEST_LINE].encode(errors="replace").decode()
    return f"{_name_of(file) or Path(file).name}:{line}" + (f": {cut}" if cut else "")


@cache
def _name_of(file: str) -> str | None:
    """Return what to call a file of the user's; None if it is none. Asked for each failed record, so kept."""
    path = Path(file)
    if not is_users(path):
        return None
    known = [path.relative_to(each) for each in map(Path, sys.path) if each.parts and path.is_relative_to(each)]
    return str(min(known, key=lambda each: len(each.parts), default=Path(path.name)))
