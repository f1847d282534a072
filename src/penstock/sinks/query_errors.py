"""What sqlglot and DataFusion complain of in a query, in the words of somebody who typed it."""

import re

from sqlglot.errors import ParseError, SqlglotError

from penstock.errors import one_line
from penstock.wording import nearest

_KEYWORDS = ["FROM", "WHERE", "GROUP", "ORDER", "BY", "LIMIT", "HAVING", "JOIN", "ON", "AS", "AND", "OR", "IN"]
_TYPO = 0.7
_LAYERS = re.compile(
    r"^((Error during planning|(External|Arrow|Execution|Internal|Parser|Cast|Schema|Compute) error"
    r"|Optimizer rule '\w+' failed caused by):? )+"
)
_OWN_NAME = re.compile(r"\bt\d*\.(?=[\w\"])|\bdatafusion\.public\.")
"""The name that a table has here, in front of a column that an error names."""
_OF_ARROW = re.compile(r'ArrowError\((\w+)(?:\("(.*)"\))?, Some\(""\)\)')
"""What the engine says of a condition that fails on a row: its name, or in its own words."""
_WINDOW = "does not support logical expression WindowFunction("
_DUMP = re.compile(r" \w+ \{ .*\}$")
_NOT_GROUPED = re.compile(r'column "(?:\w+\.)?([^"]+)" must appear in the GROUP BY|clause references: (?:\w+\.)?(\w+) ')
_NO_SIGNATURE = re.compile(r"unction '(\w+)' failed to match any signature.*? received (\w+)")
_NO_FIELD = re.compile(r"No field named (\w+)\.")
_TYPES = {"Utf8View": "text", "Utf8": "text", "String": "text", "Float64": "double", "Int64": "bigint", "Int32": "int"}
_TYPE = re.compile(rf"\b({'|'.join(_TYPES)})\b")


def of_parser(error: SqlglotError) -> str:
    """Say where a query stops being SQL, and which keyword a word there was meant for."""
    if not isinstance(error, ParseError):
        missing = str(error.__cause__)[:9]
        return f"a quote ({missing[-1]}) is not closed" if missing.startswith("Missing ") else "a comment is not closed"
    first = error.errors[0]
    if first["description"].startswith("Required keyword"):
        return "it is incomplete"
    before, word = str(first["start_context"]), str(first["highlight"])
    said = "a bracket is not closed before" if first["description"] == "Expecting )" else "there is no place for"
    end = f" in line {first['line']}" if "\n" in before else ""
    # A word that the parser did not know for a keyword, it took for a name: so it stumbles over the one after it.
    typed = next((each for each in [*re.findall(r"\w+", before)[-1:], word] if _meant(each)), None)
    hint = f". Did you mean {_meant(typed)} by '{typed}'?" if typed else ""
    return f"{said} '{one_line(word)}'{end}{hint}"


def _meant(typed: str) -> str | None:
    return None if typed.upper() in _KEYWORDS else nearest(typed.upper(), _KEYWORDS, _TYPO)


def of_engine(error: Exception, sql: str) -> str:
    """Say why a query fails, without the names that tables, types and layers have inside the engine."""
    said = _LAYERS.sub("", one_line(" ".join(str(error).split())))
    if match := _OF_ARROW.search(said):
        return _in_types(match[2] or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", match[1]).capitalize())
    if _WINDOW in said:
        return "a window function has no place in a condition"
    said = _DUMP.sub("", _OWN_NAME.sub("", said)).rstrip(".")
    if match := _NOT_GROUPED.search(said):
        name = match[1] or match[2]
        return f"'{name}' is neither in GROUP BY nor in an aggregate. Add GROUP BY {name}, or write max({name})"
    if match := _NO_SIGNATURE.search(said):
        kind = _TYPES.get(match[2], match[2].lower())
        return f"{match[1]} takes no {kind}. Cast the value, as in CAST(name AS double)"
    if (match := _NO_FIELD.match(said)) and _is_meant_as_text(match[1], sql) and "Did you mean" not in said:
        said = f"{said}. Text goes in single quotes: '{match[1]}'"
    return _in_types(said)


def _in_types(said: str) -> str:
    return _TYPE.sub(lambda match: _TYPES[match[1]], said)


def _is_meant_as_text(name: str, sql: str) -> bool:
    return re.search(rf'"{name}"|[=<>]\s*{name}\b', sql) is not None
