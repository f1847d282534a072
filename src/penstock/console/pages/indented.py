"""JSON on lines of its own, each part as it came: numbers keep their digits, and a name that occurs twice stays."""

import re
from itertools import pairwise

import orjson

_PART = re.compile(r'"(?:[^"\\]+|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_OPENS, _CLOSES = frozenset("{["), frozenset("}]")
_DEEPEST = 40
_LONGEST = 256 * 1024


def indented(text: str) -> str:
    """Return an object or a list with its parts on lines of their own; all else as it is.

    Also as it is what would grow beyond reading: records are anybody's, and nesting can blow up a short one.
    """
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    lines: list[str] = []
    depth = length = 0
    for before, part in pairwise(["", *_PART.findall(text)]):
        depth -= part in _CLOSES
        is_empty = before in _OPENS and part in _CLOSES
        breaks = not is_empty and (part in _CLOSES or before in _OPENS or before == ",")
        lines.append(("\n" + "  " * depth if breaks else "") + (": " if part == ":" else part))
        depth += part in _OPENS
        length += len(lines[-1])
        if depth > _DEEPEST or length > _LONGEST:
            return text
    return "".join(lines)
