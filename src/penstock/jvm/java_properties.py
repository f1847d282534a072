"""Java's properties files: read by Java as Latin-1, so everything beyond ASCII is escaped."""

from collections.abc import Mapping

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


def properties_text(settings: Mapping[str, object]) -> str:
    """Write settings so that Java reads back exactly these values."""
    return "".join(f"{_escaped_name(name)}={_escaped(str(value))}\n" for name, value in settings.items())


def _escaped(value: str) -> str:
    written = "".join(_ESCAPES.get(letter) or _ascii(letter) for letter in value)
    return "\\" + written if written.startswith(" ") else written


def _escaped_name(name: str) -> str:
    return "".join("\\" + letter if letter in " :=#!" else _escaped(letter) for letter in name)


def _ascii(letter: str) -> str:
    if letter.isascii() and letter.isprintable():
        return letter
    units = letter.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
