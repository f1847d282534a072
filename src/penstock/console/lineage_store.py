"""The lineage store of the project, as the routes ask it."""

import datetime
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.clock import clock
from penstock.console.service import Console
from penstock.errors import BadInput
from penstock.extras import require
from penstock.kafka.positions import Position

if TYPE_CHECKING:
    from penstock.lineage.questions import Questions

_VARIABLES = ("PENSTOCK_LINEAGE_STORE", "PENSTOCK_LINEAGE_PASSWORD_FROM", "PENSTOCK_LINEAGE_CA_FILE")


def store_of(console: Console) -> Any:
    """Return the address of the store that the commands ask: of the environment, or the one in the home folder."""
    require("lineage", "lineage in the console")
    from penstock.lineage.store.address import named_store

    store, password, ca_file = (os.environ.get(name, "") for name in _VARIABLES)
    return named_store(console.settings.home, store, password, ca_file)


@contextmanager
def questions(console: Console) -> "Iterator[Questions]":
    """Ask the store."""
    address = store_of(console)
    from penstock.lineage.questions import of_store

    with of_store(address) as asked:
        yield asked


def moment(text: str) -> datetime.datetime:
    """Read a time, or how long ago it was."""
    position = Position.parse(text)
    if position.kind != "timestamp":
        raise BadInput(f"'{text}' is not a time: say 2026-01-31T12:00, or 30d for 30 days ago")
    try:
        return datetime.datetime.fromtimestamp(position.value / 1000, clock().now().tzinfo)
    except (ValueError, OverflowError, OSError):
        raise BadInput(f"'{text}' is beyond the calendar") from None
