"""What a write did to its dataset: by what the producer says, or else by the text of its SQL."""

import re
from functools import lru_cache

from penstock.lineage.facts import WriteKind

_COMMENTS = re.compile(r"/\*.*?(?:\*/|\Z)|--[^\n]*", re.DOTALL)
_KIND = r"\b(?>[\w\s]*?\b(?:TABLE|VIEW)\b)"
"""The first such word and no other one: a text that repeats it a thousand times is searched once."""
_STATEMENTS = (
    (r"INSERT\s+OVERWRITE\b", WriteKind.OVERWRITE),
    (r"INSERT\s+INTO\b", WriteKind.APPEND),
    (r"MERGE\s+INTO\b", WriteKind.MERGE),
    (r"UPDATE\s+\S+(\s+(AS\s+)?\w+)?\s+SET\b", WriteKind.UPDATE),
    (r"DELETE\s+FROM\b", WriteKind.DELETE),
    (r"TRUNCATE\b", WriteKind.TRUNCATE),
    (rf"CREATE{_KIND}", WriteKind.CREATE),
    (rf"ALTER{_KIND}.*\bRENAME\s+TO\b", WriteKind.RENAME),
    (rf"ALTER{_KIND}", WriteKind.ALTER),
    (rf"DROP{_KIND}", WriteKind.DROP),
    (r"COPY\s+INTO\b", WriteKind.APPEND),
)
_PATTERNS = tuple((re.compile(rf"\s*{text}", re.IGNORECASE | re.DOTALL), kind) for text, kind in _STATEMENTS)
_AFTER_WITH = re.compile(r"\)\s*(INSERT|MERGE|UPDATE|DELETE)\b", re.IGNORECASE)
_MAX_CHARACTERS = 100_000


def of_state(change: str) -> int:
    """Return the kind that OpenLineage's lifecycle state change names; 0 if it is none that is known."""
    found = WriteKind.__members__.get(change.upper())
    return 0 if found is None else int(found)


@lru_cache(2_000)
def of_sql(query: str) -> int:
    """Return the kind of write that a statement does; 0 if it does none that is known."""
    text = _COMMENTS.sub(" ", query[:_MAX_CHARACTERS]).lstrip(" \t\r\n;(")
    if text[:4].upper() == "WITH" and (statement := _AFTER_WITH.search(text)):
        text = text[statement.start(1) :]
    return next((int(kind) for pattern, kind in _PATTERNS if pattern.match(text)), 0)
