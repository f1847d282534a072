"""Words that messages are made of. Imports nothing of Penstock, so that every module can use it."""

from collections.abc import Iterable
from pathlib import Path


def plural(count: int, thing: str, things: str = "") -> str:
    """Write a count with its noun, as in `1 event` and `2,000 events`."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def nearest(typed: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the name that somebody who typed this most likely meant; None if none is near."""
    import difflib

    return next(iter(difflib.get_close_matches(typed, sorted(known), n=1, cutoff=likeness)), None)


def no_column(name: str, columns: list[str]) -> str:
    """Say that there is no such column, which one may be meant, and which there are."""
    close = nearest(name.rpartition(".")[2], columns)
    meant = f"Did you mean '{close}'? " if close else ""
    return f"there is no column '{name}'. {meant}There are {', '.join(columns)}"


def nearest_file(typed: Path, known: Iterable[Path]) -> str:
    """Return the question whether another file was meant, by its name without the ending; empty if none is near."""
    by_stem = {each.stem: each for each in known}
    close = nearest(typed.stem, by_stem)
    return f"Did you mean {by_stem[close]}?" if close is not None else ""
