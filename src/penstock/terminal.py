"""Data on a terminal: shown, never obeyed. Whatever could steer it or reorder a line is written as an escape.

Where output is piped it stays as it is, byte for byte: the next program wants the data, not a picture of them.
"""

import os
import re
import sys

# Control characters of ASCII and Latin-1; of Unicode the bidirectional ones, line separators, tags, halves of pairs.
_STEERING = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_STEERING_BESIDES_NEWLINE = re.compile(_STEERING.pattern.replace("\x0a-", "\x0b-"))


def visible(text: str, *, lines: bool = False) -> str:
    r"""Write what a terminal would obey as `\u001b`, the escape that JSON has too; `lines` keeps line ends."""
    return (_STEERING_BESIDES_NEWLINE if lines else _STEERING).sub(_escaped, text)


def _escaped(match: "re.Match[str]") -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def write_data(data: bytes) -> None:
    """Write to standard output: as it is where that is piped, made visible on a terminal."""
    if sys.stdout.isatty():
        data = visible(data.decode(errors="backslashreplace"), lines=True).encode()
    sys.stdout.buffer.write(data)


def colours_wanted() -> bool:
    """Return whether colours may be used on a terminal: NO_COLOR and dumb terminals have none."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
