"""Which rows PostgreSQL refuses: told apart from a server that is down and from a table that takes no row at all.

An error may have any SQLSTATE, since triggers and functions choose their own. What is no outage is therefore put to the
test: the same statement without a row, then with ever fewer, until the failing rows are found.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.errors import Conflict
from penstock.record.decoded import RecordError, record_error
from penstock.sinks.postgres_server import first_line, is_outage

if TYPE_CHECKING:
    import psycopg

# Something that is not there, not supported, not allowed: rarely a row's doing, unless a trigger or a policy says so.
_OF_THE_DEFINITION = ("0A", "3D", "3F", "42", "55")
_SAID_OF_A_ROW = frozenset({"exec_stmt_raise", "ExecWithCheckOptions"})
"""Functions of the server that report RAISE, and a row that the policy of a table or the check of a view forbids."""


def may_be_of_a_row(error: "psycopg.Error") -> bool:
    """Return whether a row can be to blame; without a SQLSTATE the client has refused to send it."""
    import psycopg

    return isinstance(error, psycopg.DataError) if error.sqlstate is None else not is_outage(error)


def is_of_the_definition(error: "psycopg.Error") -> bool:
    """Return whether the error speaks of the table, or of what its triggers use, so that other rows get it, too."""
    return (error.sqlstate or "").startswith(_OF_THE_DEFINITION) and error.diag.source_function not in _SAID_OF_A_ROW


def find_refused(count: int, write: Callable[[int, int], None]) -> list[tuple[int, "psycopg.Error"]]:
    """Write rows 0 to `count`; return the number and the error of each that is refused, once all others are written.

    `write(first, last)` writes the rows from `first` up to `last` or none of them. What is no row's fault is raised: an
    outage, an error that comes without a row, and one that speaks of the table and spares no row.
    """
    import psycopg

    refused: list[tuple[int, psycopg.Error]] = []
    waiting = [(0, count)] if count else []
    while waiting:
        first, last = waiting.pop()
        try:
            write(first, last)
        except psycopg.Error as error:
            if not may_be_of_a_row(error):
                raise
            if last - first == count:
                write(0, 0)
            if last - first == 1:
                refused.append((first, error))
            else:
                middle = (first + last) // 2
                waiting += [(middle, last), (first, middle)]
    if len(refused) == count:
        for _, refusal in refused:
            if is_of_the_definition(refusal):
                raise refusal
    return refused


@contextmanager
def without_index_explained(table: str, key: list[str]) -> Iterator[None]:
    """Say in words that rows cannot be merged by this key: the table has no unique index, or only a deferrable one."""
    from psycopg import errors

    try:
        yield
    except (errors.InvalidColumnReference, errors.ObjectNotInPrerequisiteState):
        if not key:
            raise
        raise Conflict(
            f"the table {table} has no unique index on ({', '.join(key)})",
            safe="Nothing was written",
            fix="Make one; an upsert needs it",
        ) from None


def refusal_of(error: Any) -> RecordError:
    """Describe why a row was refused; values stay out of it, for they may be secret."""
    import psycopg

    message = error.diag.message_primary or first_line(error)
    if isinstance(error, psycopg.DataError):
        message = re.sub(r'".*"', '"..."', message, flags=re.DOTALL)
    return record_error(type(error).__name__, message, stage="sink")
