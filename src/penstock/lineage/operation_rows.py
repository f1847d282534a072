"""Operations as the rows that PostgreSQL's COPY takes in binary: tasks make them, and the driver passes them on.

Only of operations whose id is a UUIDv7, whose time the row has. Guarantee: `unpacked` gives the very one that `packed`
took.
"""

import datetime
import struct
from uuid import UUID

from penstock.lineage.facts import Operation
from penstock.lineage.keys import time_of

COLUMNS = (
    "created_at",
    "id",
    "run_id",
    "status",
    "name",
    "type",
    "position",
    "group",
    "description",
    "sql_query",
    "started_at",
    "ended_at",
)
"""The table's, in its order."""
_EPOCH = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_US = datetime.timedelta(microseconds=1)
_US_TO_2000 = 946_684_800_000_000
_BEGIN = struct.Struct(">hiqi16si16sih")
_LENGTH = struct.Struct(">i")
_NUMBER = struct.Struct(">iq")
_NOTHING = _LENGTH.pack(-1)


def packed(operation: Operation) -> bytes:
    """Return the row: the number of columns, and of each value its length and its bytes."""
    id_ = operation.id.int
    created_us = (id_ >> 80) * 1000 - _US_TO_2000
    run_id, status = operation.run_id.int.to_bytes(16), operation.status
    return b"".join(
        (
            _BEGIN.pack(len(COLUMNS), 8, created_us, 16, id_.to_bytes(16), 16, run_id, 2, status),
            _text(operation.name),
            _text(operation.type),
            _NOTHING if operation.position is None else _NUMBER.pack(8, operation.position),
            _text(operation.group),
            _text(operation.description),
            _text(operation.sql),
            _time(operation.started_at),
            _time(operation.ended_at),
        )
    )


def _text(value: str | None) -> bytes:
    if value is None:
        return _NOTHING
    data = value.encode()
    return _LENGTH.pack(len(data)) + data


def _time(value: datetime.datetime | None) -> bytes:
    return _NOTHING if value is None else _NUMBER.pack(8, (value - _EPOCH) // _US)


def unpacked(row: bytes) -> Operation:
    """Return the operation that `packed` made this row of."""
    _, _, _, _, id_, _, run_id, _, status = _BEGIN.unpack_from(row)
    at, values = _BEGIN.size, list[bytes | None]()
    while at < len(row):
        (length,) = _LENGTH.unpack_from(row, at)
        at += _LENGTH.size
        values.append(row[at : at + length] if length >= 0 else None)
        at += max(length, 0)
    name, kind, position, group, description, sql, started_at, ended_at = values
    operation_id = UUID(bytes=id_)
    created_at = time_of(operation_id)
    if created_at is None or name is None:
        raise ValueError(f"{operation_id} holds no time, or has no name")
    return Operation(
        id=operation_id,
        run_id=UUID(bytes=run_id),
        created_at=created_at,
        status=status,
        name=name.decode(),
        type=_read_text(kind),
        position=None if position is None else int.from_bytes(position, signed=True),
        group=_read_text(group),
        description=_read_text(description),
        sql=_read_text(sql),
        started_at=_read_time(started_at),
        ended_at=_read_time(ended_at),
    )


def _read_text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def _read_time(data: bytes | None) -> datetime.datetime | None:
    return None if data is None else _EPOCH + int.from_bytes(data, signed=True) * _US
