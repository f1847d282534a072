"""Sinks that break a promise, each one, to show that the conformance suite notices."""

import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.record.decoded import RecordError
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.sinks.delta import Delta, DeltaSink
from penstock.sinks.delta_stager import DeltaStager
from penstock.sinks.sink import Refusal, SinkContext, Staged, StagerFactory


class DataFirst(Delta, frozen=True):
    """Commits the data, and then the position."""

    def open(self, context: SinkContext) -> DeltaSink:
        return _DataFirst(self, context.name, context.pipeline)


class _DataFirst(DeltaSink):
    def commit(self) -> None:
        staged, expected = self._staged, self._expected
        self._append_alone()
        self._staged = [Staged(each.offset_range, 0, {}) for each in staged]
        self._expected = expected
        super().commit()

    def _append_alone(self) -> None:
        from deltalake import CommitProperties

        self.positions(self._expected)
        self._offer()
        self._append(CommitProperties(), int(time.time() * 1000))


class NoPosition(Delta, frozen=True):
    """Does not look whether the position is where it was expected."""

    def open(self, context: SinkContext) -> DeltaSink:
        return _NoPosition(self, context.name, context.pipeline)


class _NoPosition(DeltaSink):
    def prepare(self, staged: list[Staged], _expected: Mapping[SourcePartition, int | None]) -> list[Refusal]:
        return super().prepare(staged, {})


class LosesLast(Delta, frozen=True):
    """Loses the last row of each batch."""

    def open(self, context: SinkContext) -> DeltaSink:
        return _LosesLast(self, context.name, context.pipeline)


class _LosesLast(DeltaSink):
    def stager(self) -> Any:
        return _LossyFactory(super().stager())


class _LossyFactory:
    def __init__(self, factory: StagerFactory) -> None:
        self._factory = factory

    def __call__(self, offset_range: OffsetRange) -> "_LossyStager":
        is_alone = offset_range.end - offset_range.start == 1
        return _LossyStager(self._factory(offset_range), -1 if is_alone else offset_range.end - 1)


class _LossyStager:
    def __init__(self, stager: Any, last: int) -> None:
        self._stager: DeltaStager = stager
        self._last = last

    def write(self, rows: pa.RecordBatch, offsets: pa.Array) -> list[tuple[int, RecordError]]:
        kept = len([each for each in offsets.to_pylist() if each != self._last])
        return self._stager.write(rows.slice(0, kept), offsets.slice(0, kept))

    def finish(self) -> dict[str, Any]:
        return self._stager.finish()
