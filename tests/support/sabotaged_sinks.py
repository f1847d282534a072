"""Sinks that break a promise, each one, to show that the conformance suite notices."""

import time
import uuid
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.record.decoded import RecordError
from penstock.record.positions import OffsetRange, SourcePartition, require_unmoved
from penstock.record.target import Target
from penstock.sinks.delta import Delta, DeltaSink
from penstock.sinks.delta_stager import DeltaStager
from penstock.sinks.sink import Refusal, Replaced, SinkContext, Staged, StagerFactory


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
        self._write(CommitProperties(), int(time.time() * 1000))


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


class OtherStager(Delta, frozen=True):
    """Stages with one that breaks a promise."""

    def open(self, context: SinkContext) -> DeltaSink:
        return _OtherStager(self, context.name, context.pipeline)

    @staticmethod
    def breaking(stager: Any) -> Any:
        raise NotImplementedError


class _OtherStager(DeltaSink):
    def __init__(self, spec: OtherStager, name: str, pipeline: str) -> None:
        super().__init__(spec, name, pipeline)
        self._spec = spec

    def stager(self) -> Any:
        return _OtherFactory(super().stager(), self._spec)


class _OtherFactory:
    def __init__(self, factory: StagerFactory, spec: OtherStager) -> None:
        self._factory, self._spec = factory, spec

    def __call__(self, offset_range: OffsetRange) -> Any:
        return self._spec.breaking(self._factory(offset_range))


class NoJson(OtherStager, frozen=True):
    """Gives the driver numbers as keys, which are strings when they arrive."""

    @staticmethod
    def breaking(stager: Any) -> Any:
        return _NoJson(stager)


class _NoJson:
    def __init__(self, stager: Any) -> None:
        self._stager = stager
        self.write = stager.write

    def finish(self) -> dict[str, Any]:
        return {**self._stager.finish(), "counts": {0: 1}}


class LosesText(OtherStager, frozen=True):
    """Writes nulls instead of the user's text."""

    @staticmethod
    def breaking(stager: Any) -> Any:
        return _LosesText(stager)


class _LosesText:
    def __init__(self, stager: Any) -> None:
        self._stager = stager
        self.finish = stager.finish

    def write(self, rows: pa.RecordBatch, offsets: pa.Array) -> Any:
        index = rows.schema.get_field_index("text")
        return self._stager.write(rows.set_column(index, "text", pa.nulls(len(rows), pa.string())), offsets)


_in_memory: dict[str, list[Any]] = {}


class KeepsInMemory(OtherStager, frozen=True):
    """Keeps the rows in the memory of the task's process."""

    def open(self, context: SinkContext) -> DeltaSink:
        return _KeepsInMemory(self, context.name, context.pipeline)

    @staticmethod
    def breaking(_stager: Any) -> Any:
        return _MemoryStager()


class _MemoryStager:
    def __init__(self) -> None:
        self._name = uuid.uuid4().hex
        _in_memory[self._name] = []

    def write(self, rows: pa.RecordBatch, offsets: pa.Array) -> list[Any]:
        _in_memory[self._name].append((rows, offsets))
        return []

    def finish(self) -> dict[str, Any]:
        return {"name": self._name}


class _KeepsInMemory(_OtherStager):
    def prepare(self, staged: list[Staged], expected: Mapping[SourcePartition, int | None]) -> list[Refusal]:
        return super().prepare([self._written(each) for each in staged], expected)

    def _written(self, staged: Staged) -> Staged:
        stager = DeltaSink.stager(self)(staged.offset_range)
        chunks = _in_memory.get(staged.detail["name"], [])
        for rows, offsets in chunks:
            stager.write(rows, offsets)
        return Staged(staged.offset_range, sum(len(rows) for rows, _ in chunks), stager.finish())


class ComparesEarly(Delta, frozen=True):
    """Compares positions when the batch is prepared, and not when it is committed."""

    def open(self, context: SinkContext) -> DeltaSink:
        return _ComparesEarly(self, context.name, context.pipeline)


class _ComparesEarly(DeltaSink):
    def prepare(self, staged: list[Staged], expected: Mapping[SourcePartition, int | None]) -> list[Refusal]:
        require_unmoved(self.name, expected, self.positions(expected) or {})
        return super().prepare(staged, {})


class ByTopicName(Delta, frozen=True):
    """Takes a topic that was deleted and recreated for the old one."""

    def open(self, context: SinkContext) -> DeltaSink:
        return _ByTopicName(self, context.name, context.pipeline)


class _ByTopicName(DeltaSink):
    def _app(self, source_partition: SourcePartition) -> str:
        return self._restores.app(source_partition.topic, source_partition.partition)


class OneForAll(Delta, frozen=True):
    """Says that sinks can share a table, and keeps the same positions for all."""

    def target(self) -> Target:
        return Target("folder", str(self.path))

    def open(self, _context: SinkContext) -> DeltaSink:
        return DeltaSink(self, "", "")


class ReplacesNothing(Delta, frozen=True):
    """Says that it can replace rows, and appends."""

    def open(self, context: SinkContext) -> DeltaSink:
        return _ReplacesNothing(self, context.name, context.pipeline)


class _ReplacesNothing(DeltaSink):
    def replace(self, replaced: Replaced) -> None:
        pass
