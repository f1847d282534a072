"""Files that record what something was made or started with: written whole, with a version, for their owner alone."""

from pathlib import Path
from typing import TypeVar

import orjson
from pydantic import BaseModel

from penstock.errors import Conflict
from penstock.private import write_private
from penstock.record.formats import KEY, require_format

State = TypeVar("State", bound=BaseModel)


def save(path: Path, version: int, state: BaseModel) -> None:
    """Write it so that a crash leaves the old one or the new one."""
    content = {KEY: version, **state.model_dump(mode="json")}
    write_private(path, orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def load(path: Path, version: int, kind: type[State], *, safe: str, fix: str) -> State | None:
    """Return what a file says; None if there is none. One that is damaged is `Conflict`, with what to do about it."""
    try:
        content = orjson.loads(path.read_bytes())
        if isinstance(content, dict):
            require_format(str(path), content.pop(KEY, None), version)
        return kind.model_validate(content)
    except FileNotFoundError:
        return None
    except (ValueError, OSError):
        raise Conflict(f"{path} is damaged or cannot be read", safe=safe, fix=fix) from None
