"""The tasks of one batch, put together from a pipeline's model: for a driver and for the test kit."""

import os
from collections.abc import Callable, Mapping

from penstock.errors import BadInput
from penstock.pipeline.spec import PipelineSpec
from penstock.record.columns import where_column
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.sinks.sink import StagerFactory
from penstock.sources.source import PartitionReader
from penstock.worker.tasks import DeadStager, DeadTask, ReadTask, RejectedRecords, SinkTask, WriteTask


def tasks_of(
    spec: PipelineSpec,
    reader: PartitionReader,
    stagers: Mapping[str, StagerFactory],
    dead_stager: Callable[[OffsetRange], DeadStager],
    offset_ranges: list[OffsetRange],
    resume_offsets: Mapping[str, Positions],
    rejected: list[RejectedRecords],
    recorded: Mapping[SourcePartition, set[tuple[int, str | None]]],
) -> tuple[ReadTask, WriteTask]:
    """Return the first and the last part of each task; the steps come in between.

    Each sink, and the dead letters, have a part of each offset range: from their own resume offset on. Rejected are
    records, by offset range, that are known to fail; recorded are dead letters of an unfinished batch.
    """
    if spec.decode is None:
        raise BadInput(f"pipeline '{spec.name}' has no decoder")
    read = ReadTask(
        reader=reader,
        decode=spec.decode,
        offset_ranges=offset_ranges,
        rejected=rejected,
        counted_from=[
            sorted({each.start, *(positions[each.source_partition] for positions in resume_offsets.values())})
            for each in offset_ranges
        ],
        max_bytes=max(1, spec.batch.max_bytes // len(offset_ranges)),
    )
    sinks = [
        SinkTask(
            name=name,
            stager=stagers[name],
            reserved_columns=spec.reserved_columns(model),
            where=where_column(number) if model.where else None,
            resume_offsets=[resume_offsets[name][each.source_partition] for each in offset_ranges],
        )
        for number, (name, model) in enumerate(zip(spec.sink_names, spec.sinks, strict=True))
    ]
    dead = DeadTask(dead_stager, [recorded.get(each.source_partition, set()) for each in offset_ranges])
    return read, WriteTask(sinks, dead, spec.expect, offset_ranges, rejected, driver_pid=os.getpid())
