"""UUIDs of version 7, which begin with a time: Python 3.11 has none."""

from uuid import UUID

_VERSION, _VARIANT = 0xF << 76, 0b11 << 62


def uuid7(at_ms: int, chance: int) -> UUID:
    """Return the UUIDv7 of a time, in milliseconds since 1970, and 80 bits of which all but six count."""
    number = (at_ms & (2**48 - 1)) << 80 | chance & (2**80 - 1)
    return UUID(int=number & ~_VERSION & ~_VARIANT | 7 << 76 | 0b10 << 62)
