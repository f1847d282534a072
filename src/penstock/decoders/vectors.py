"""The bytes of many records in one buffer, from which numpy reads values of all records at once.

Whatever is odd about a record, a number that ends too late, a text that is not UTF-8, is not judged here: the record is
marked, what was read of it is ignored, and code that can explain the problem reads it by itself.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Offsets = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint64]
_MORE = 0x80
_LAST_SHIFT = 63
_SPARE_BYTES = 16
_MOST_BYTES = 2**31 - 1 - _SPARE_BYTES


class Chunk:
    """The bytes of all payloads, one behind the other. Offsets that are read at are never beyond a record's end."""

    def __init__(self, payloads: Sequence[bytes]) -> None:
        sizes = np.fromiter(map(len, payloads), np.int64, len(payloads))
        self.ends: Offsets = np.cumsum(sizes)
        self.starts: Offsets = self.ends - sizes
        self.odd = sizes == 0
        self._data = b"".join([*payloads, bytes(_SPARE_BYTES)])
        self.bytes = np.frombuffer(self._data, np.uint8)

    @staticmethod
    def holds(payloads: Sequence[bytes]) -> bool:
        """Return whether this many bytes can be looked at in one piece."""
        return sum(map(len, payloads)) <= _MOST_BYTES

    def require(self, is_so: npt.NDArray[np.bool_], ends: Offsets) -> None:
        """Mark the records for which the condition is false, identified by the ends of them or of their parts."""
        if not is_so.all():
            self.odd[np.searchsorted(self.ends, ends[~is_so])] = True

    def varints(self, at: Offsets, ends: Offsets) -> tuple[Numbers, Offsets]:
        """Return the numbers that begin at these offsets, and where each ends."""
        self.require(at < ends, ends)
        first = self.bytes[at]
        values, after = (first & 0x7F).astype(np.uint64), at + 1
        going = np.flatnonzero(first >= _MORE)
        shift = 7
        while len(going):
            behind = after[going]
            self.require(behind < ends[going], ends[going])
            byte = self.bytes[np.minimum(behind, ends[going])]
            if shift == _LAST_SHIFT:
                self.require(byte <= 1, ends[going])  # there is room for one bit
            values[going] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            after[going] = behind + 1
            going = going[(byte >= _MORE) & (behind < ends[going])] if shift < _LAST_SHIFT else going[:0]
            shift += 7
        return values, np.minimum(after, ends)

    def slices(self, at: Offsets, sizes: Numbers, ends: Offsets, kind: pa.DataType) -> tuple[pa.Array, Offsets]:
        """Return texts or bytes of these sizes, and where each ends."""
        after = self.behind(at, sizes, ends)
        taken = self._taken(at, after)
        try:
            return taken.cast(kind), after
        except pa.ArrowInvalid:
            is_text = np.array([_is_text(each) for each in taken.to_pylist()])
            self.require(is_text, ends)
            return self._taken(at, np.where(is_text, after, at)).cast(kind), after

    def _taken(self, at: Offsets, after: Offsets) -> pa.Array:
        # Every other item of an array over all bytes: those between belong to somebody else.
        offsets = np.stack([at, after], axis=1).astype(np.int32).ravel()
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._data)]
        every = pa.Array.from_buffers(pa.binary(), max(len(offsets) - 1, 0), buffers)
        return every.take(pa.array(np.arange(0, len(offsets), 2)))

    def behind(self, at: Offsets, sizes: Numbers, ends: Offsets) -> Offsets:
        """Return the ends of values of these sizes."""
        is_inside = sizes <= (ends - at).astype(np.uint64)
        self.require(is_inside, ends)
        return at + np.where(is_inside, sizes, 0).astype(np.int64)

    def fixed(self, at: Offsets, numbers: str, ends: Offsets) -> tuple[Any, Offsets]:
        """Return numbers of a fixed size, such as `<f8`, and where each ends."""
        size = np.dtype(numbers).itemsize
        self.require(at + size <= ends, ends)
        return self.bytes[at[:, None] + np.arange(size)].view(numbers)[:, 0], np.minimum(at + size, ends)


def zigzag(values: Numbers) -> npt.NDArray[np.int64]:
    """Return signed numbers of those that alternate between them."""
    return (values >> np.uint64(1)).astype(np.int64) ^ -(values & np.uint64(1)).astype(np.int64)


def spread(found: pa.Array, there: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the values found for some rows as a column of all; null for the others."""
    return found if there.all() else found.take(pa.array(np.cumsum(there) - 1, mask=~there))


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
