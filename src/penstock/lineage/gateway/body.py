"""Reading a body: no more of it than the limits allow, as it comes in and as it inflates."""

import asyncio
import zlib
from typing import Protocol

from starlette.requests import ClientDisconnect, Request

from penstock.lineage.gateway.options import GatewayLimits
from penstock.lineage.gateway.refusal import Refusal

_GZIP = zlib.MAX_WBITS | 16


class Room(Protocol):
    """Memory that one request holds."""

    def take(self, size: int) -> None:
        """Hold some more; raise `Refusal` if there is none left."""


async def read_body(request: Request, limits: GatewayLimits, room: Room) -> bytes:
    """Return the body, inflated; raise `Refusal` as soon as it is too large, too slow or broken."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"gzip", "x-gzip", "identity", ""}:
        raise Refusal(415, f"Content-Encoding '{encoding[:40]}' is not taken; gzip is")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limits.body_max_bytes:
        raise _too_large(limits.body_max_bytes)
    try:
        async with asyncio.timeout(limits.body_timeout_s):
            return await _read(request, limits, room, is_zipped="gzip" in encoding)
    except TimeoutError:
        raise Refusal(408, f"The body did not come within {limits.body_timeout_s:g} seconds") from None
    except ClientDisconnect:
        raise Refusal(400, "The connection ended before the body did") from None


async def _read(request: Request, limits: GatewayLimits, room: Room, *, is_zipped: bool) -> bytes:
    inflater = zlib.decompressobj(_GZIP)
    parts: list[bytes] = []
    came = inflated = 0
    async for chunk in request.stream():
        came += len(chunk)
        if came > limits.body_max_bytes:
            raise _too_large(limits.body_max_bytes)
        # One byte more than is allowed shows that there is more; the rest is never inflated.
        part = _inflated(inflater, chunk, limits.inflated_max_bytes - inflated + 1) if is_zipped else chunk
        inflated += len(part)
        if is_zipped and inflated > limits.inflated_max_bytes:
            raise Refusal(
                413,
                f"The body inflates to more than {limits.inflated_max_bytes} bytes",
                details={"max_bytes": limits.inflated_max_bytes},
            )
        room.take(len(part))
        parts.append(part)
    if is_zipped and not inflater.eof:
        raise Refusal(400, "The body is not a whole gzip file")
    return b"".join(parts)


def _inflated(inflater: "zlib._Decompress", chunk: bytes, max_bytes: int) -> bytes:
    try:
        part = inflater.decompress(chunk, max_bytes)
    except zlib.error:
        raise Refusal(400, "The body is not gzip") from None
    if inflater.unused_data:
        raise Refusal(400, "Something follows the body's gzip")
    return part


def _too_large(max_bytes: int) -> Refusal:
    return Refusal(413, f"The body has more than {max_bytes} bytes", details={"max_bytes": max_bytes})
