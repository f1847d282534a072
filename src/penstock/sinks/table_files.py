"""Reading the files that a table consists of, which somebody may have deleted, cut off or overwritten."""

import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import Conflict, one_line

_DAMAGED = (EOFError, SystemError, ValueError, zlib.error)
"""What pyiceberg and Arrow raise on bytes that make no sense; `ArrowInvalid` is a `ValueError`."""


@contextmanager
def all_readable(table: str, safe: str = "Nothing was written") -> Iterator[None]:
    """Raise `Conflict` for a file that the table names, and that is gone or damaged, and for properties of no sense."""
    try:
        yield
    except FileNotFoundError as error:
        gone = re.search(r"'([^']+)'", str(error))
        what = f"names {gone[1] if gone else 'a file'}, which is gone"
    except _DAMAGED as error:
        what = f"has a damaged file or property: {_reason(error)}"
    except OSError as error:
        if error.errno is not None:  # the disk's own
            raise
        what = f"has a damaged file or property: {_reason(error)}"
    else:
        return
    raise Conflict(
        f"{table} {what}",
        safe=safe,
        fix="Put the file back, or bring back a version that does not need it: penstock table history, then restore",
    ) from None


def _reason(error: Exception) -> str:
    return one_line(str(error).splitlines()[0] if str(error) else type(error).__name__).rstrip(".")
