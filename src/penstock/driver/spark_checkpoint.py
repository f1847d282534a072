"""The checkpoint that Spark's streaming query keeps: which batches it planned, from where to where, and which it ended.

Spark writes `offsets/N` before it runs batch N and `commits/N` after it. A batch that runs again finds its `offsets/N`
as it was; one that is planned again, after an older copy was restored, gets another, if only for the time in it.
"""

import hashlib
import shutil
from pathlib import Path

import orjson

_DIGEST_BITS = 31


class SparkCheckpoint:
    """The folder of one query."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def exists(self) -> bool:
        """Return whether Spark has been here."""
        return self.folder.exists()

    def query_id(self) -> str | None:
        """Return the id that Spark made up for the query; None if it is gone or damaged."""
        try:
            metadata = orjson.loads((self.folder / "metadata").read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return None
        return str(metadata["id"]) if isinstance(metadata, dict) and "id" in metadata else None

    def committed(self) -> int | None:
        """Return the number of the last batch that came to its end."""
        return self._last("commits")

    def committed_ms(self, batch: int) -> int:
        """Return when a batch came to its end, in milliseconds since 1970."""
        return int((self.folder / "commits" / str(batch)).stat().st_mtime * 1000)

    def next(self) -> int:
        """Return the number of the batch that comes next: one that was planned and did not end, or a new one."""
        planned, committed = self._last("offsets"), self.committed()
        return max(planned or 0, 0 if committed is None else committed + 1)

    def _last(self, log: str) -> int | None:
        return max((int(path.name) for path in (self.folder / log).glob("[0-9]*") if path.name.isdigit()), default=None)

    def offsets(self, batch: int) -> bytes | None:
        """Read what was planned for a batch: its end in the source, the watermark, the time."""
        try:
            return (self.folder / "offsets" / str(batch)).read_bytes()
        except FileNotFoundError:
            return None

    def position_after(self, batch: int) -> int | None:
        """Return the position of a sink that holds a batch: the next number, and what sets this batch apart.

        One integer, because that is what every sink can compare and set: the number stands above 31 bits of the
        digest of the batch's offsets. None if the batch is not planned.
        """
        offsets = self.offsets(batch)
        if offsets is None:
            return None
        digest = int.from_bytes(hashlib.sha256(offsets).digest()[:4]) >> (32 - _DIGEST_BITS)
        return (batch + 1) << _DIGEST_BITS | digest

    def retire(self) -> None:
        """Rename the folder, so that nobody uses it; one that was retired before is deleted first."""
        self.remove_old()
        if self.exists:
            self.folder.rename(self._old)

    def remove_old(self) -> None:
        """Delete the retired folder."""
        if self._old.exists():
            shutil.rmtree(self._old)

    @property
    def _old(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.old")


def batch_of(position: int | None) -> int:
    """Return the number of the next batch that a position stands for."""
    return 0 if position is None else position >> _DIGEST_BITS
