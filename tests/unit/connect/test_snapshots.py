import json
from collections.abc import Iterable

import pytest

from penstock.connect.snapshots import judged


def told(kind: str, aggregate: str = "Initial Snapshot") -> tuple[bytes, bytes]:
    """Make a record as Debezium's notifications are written by Connect's converter with schemas."""
    payload = {"id": "x", "type": kind, "aggregate_type": aggregate, "additional_data": {}, "timestamp": 1}
    return b'{"id":"x"}', json.dumps({"schema": {"type": "struct"}, "payload": payload}).encode()


BEGUN, RESTARTING = (b"penstock", b"begun"), (b"penstock", b"restarting")
STARTED, COMPLETED, SKIPPED = told("STARTED"), told("COMPLETED"), told("SKIPPED")
A_TABLE = [told("IN_PROGRESS"), told("TABLE_SCAN_COMPLETED")]


@pytest.mark.parametrize(
    ("records", "state"),
    [
        ([], "unknown"),
        ([BEGUN], "not begun"),
        ([BEGUN, STARTED, *A_TABLE], "being taken"),
        ([BEGUN, STARTED, *A_TABLE, COMPLETED], "complete"),
        ([BEGUN, STARTED, COMPLETED, SKIPPED, SKIPPED], "complete"),
        ([BEGUN, STARTED, *A_TABLE, STARTED], "interrupted"),
        ([BEGUN, STARTED, STARTED, *A_TABLE, COMPLETED], "interrupted"),
        ([BEGUN, STARTED, COMPLETED, STARTED, COMPLETED, SKIPPED], "interrupted"),
        ([BEGUN, STARTED, STARTED, RESTARTING], "restarting"),
        ([BEGUN, STARTED, STARTED, RESTARTING, STARTED, COMPLETED], "restarting"),
        ([BEGUN, STARTED, STARTED, RESTARTING, BEGUN], "not begun"),
        ([BEGUN, STARTED, STARTED, RESTARTING, BEGUN, STARTED, COMPLETED], "complete"),
        ([BEGUN, STARTED, COMPLETED, BEGUN, STARTED], "being taken"),
        ([BEGUN, STARTED, told("STARTED", "Incremental Snapshot"), (None, b"{"), (None, None)], "being taken"),
    ],
)
def test_a_snapshot_is_interrupted_if_it_began_twice_since_its_topics_were_said_to_be_empty(
    records: Iterable[tuple[bytes | None, bytes | None]], state: str
) -> None:
    assert state == judged(records)
