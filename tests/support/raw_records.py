"""Records that no client would send: any timestamp, any header name. Written byte by byte, in Kafka's own protocol."""

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.kafka.connection import Connection

_PRODUCE, _VERSION, _ALL = 0, 7, -1
_CASTAGNOLI = 0x82F63B78


@dataclass(frozen=True)
class RawRecord:
    """One record, as it stands in a batch."""

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = 1_700_000_000_000
    headers: Sequence[tuple[bytes, bytes | None]] = ()


def send_raw(connection: Connection, topic: str, *records: RawRecord, partition: int = 0) -> None:
    """Send each record in a batch of its own, to a node that leads every partition; raise if one is refused."""
    host, port = connection.bootstrap_servers.split(",")[0].rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=10) as stream:
        for record in records:
            batch = batch_of(record)
            body = struct.pack("!hhii", -1, _ALL, 10_000, 1) + _text(topic)
            body += struct.pack("!iii", 1, partition, len(batch)) + batch
            request = struct.pack("!hhi", _PRODUCE, _VERSION, 1) + _text("raw") + body
            stream.sendall(struct.pack("!i", len(request)) + request)
            answer = _read(stream, struct.unpack("!i", _read(stream, 4))[0])
            error = struct.unpack_from("!h", answer, 4 + 4 + 2 + len(topic.encode()) + 4 + 4)[0]
            if error:
                raise AssertionError(f"Kafka refused the record with error {error}")


def _read(stream: socket.socket, count: int) -> bytes:
    heard = b""
    while len(heard) < count:
        heard += stream.recv(count - len(heard)) or _closed()
    return heard


def _closed() -> bytes:
    raise AssertionError("Kafka closed the connection")


def batch_of(record: RawRecord, *, checked: bool = True) -> bytes:
    """Return the bytes of a batch with one record; its checksum takes time, and is left out if not `checked`."""
    listed = [_bytes(name) + _bytes(value) for name, value in record.headers]
    content = b"\0" + _varint(0) + _varint(0) + _bytes(record.key) + _bytes(record.value) + _varint(len(listed))
    content += b"".join(listed)
    rest = struct.pack("!hiqqqhii", 0, 0, record.timestamp_ms, record.timestamp_ms, -1, -1, -1, 1)
    rest += _varint(len(content)) + content
    behind_length = struct.pack("!ibI", -1, 2, _crc32c(rest) if checked else 0) + rest
    return struct.pack("!qi", 0, len(behind_length)) + behind_length


def _text(text: str) -> bytes:
    return struct.pack("!h", len(text.encode())) + text.encode()


def _bytes(value: bytes | None) -> bytes:
    return _varint(-1) if value is None else _varint(len(value)) + value


def _varint(number: int) -> bytes:
    rest, listed = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        listed.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*listed, rest])


def _crc32c(content: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_CASTAGNOLI if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
