"""Decisions of a person: rebuilding a lost checkpoint, continuing past a gap, giving up a record.

All of these are commands, never automatic.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Literal

from penstock.delivery import gaps as records
from penstock.delivery import sink_progress
from penstock.delivery.checkpoint import Checkpoint, Committed
from penstock.delivery.crash_points import crash_point
from penstock.delivery.dead_letters import SINK_NAME
from penstock.delivery.gaps import TOPIC_DELETED, Gap
from penstock.driver.paths import PipelinePaths
from penstock.driver.pattern import deleted_topics
from penstock.driver.runner import Runner
from penstock.errors import BadInput, CheckpointLost, Conflict, NotFound
from penstock.kafka.admin import Admin
from penstock.kafka.cluster import cluster_id
from penstock.kafka.connection import Connection
from penstock.pipeline.spec import PipelineSpec
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.sinks.sink import OnRead, Recovery, Sink, Staged, ignore_progress
from penstock.sources.source import SourceContext

_RECREATED = "topic recreated"


def rebuild(
    runner: Runner, *, may_repeat: bool = False, on_read: OnRead = ignore_progress
) -> dict[str, dict[SourcePartition, int]]:
    """Make a new checkpoint; return the positions that the sinks have, from which they will continue.

    A sink without a position starts where the source says. One that keeps none continues from the reported lag; one
    whose positions Kafka has forgotten, after its last row; dead letters, after the last one or at the furthest sink's
    position. What the former checkpoint had of deleted topics is recorded as gaps first.

    Raise `Conflict` where a sink could get rows twice, unless it `may_repeat`; `on_read` is called with the progress of
    reading one.
    """
    source_partitions = [each.source_partition for each in runner.available]
    reported = runner.lag_report.reported(source_partitions)
    # Positions inside a transaction that a dead driver left open are not settled, and would be waited for in vain.
    runner.take_over()
    former = runner.continued(_former(runner))
    settled = _settled(runner, former, source_partitions)
    kept = _kept(runner, former, source_partitions)
    judged = kept[SINK_NAME] or runner.dead.last_judged(source_partitions)
    # All are asked before the first goes on: any of them can show that this is an old copy.
    is_old = _is_behind(former, SINK_NAME, judged) or any(
        _is_behind(former, sink.name, kept[sink.name]) or _has_rows_beyond(former, sink, kept[sink.name])
        for sink in runner.sinks
    )
    # Nor is it known to be none, where nobody else has a position that could show it.
    settled &= {each for positions in (reported, *kept.values()) for each in positions}
    changed: list[str] = []
    for sink in sorted(runner.sinks, key=lambda each: each.positions_expire):
        committed = former.sinks.get(sink.name, {})
        # One that stands before the reported lag is an old copy's. A sink that was added since has written nothing.
        exact = frozenset(each for each in settled & committed.keys() if committed[each] >= reported.get(each, 0))
        exact = settled if former.sinks and sink.name not in former.sinks else exact
        exact = frozenset() if is_old else exact
        recovery = Recovery(committed, exact, reported, may_repeat=may_repeat, on_read=on_read)
        try:
            if sink.recover(source_partitions, recovery):
                changed.append(sink.name)
        except Conflict as error:
            raise _with_changes(error, changed) from None
        is_old = is_old or _is_behind(former, sink.name, sink.positions(source_partitions) or {})
    for sink in runner.sinks:
        sink.refresh()
    found = {name: store.positions(source_partitions) for name, store in runner.stores.items()}
    known = {name: dict(positions or {}) for name, positions in found.items()}
    without_positions = {
        name
        for name, store in runner.stores.items()
        if found[name] is None or (store.positions_expire and not known[name])
    }
    known |= {name: dict(reported) for name in without_positions}
    for source_partition in source_partitions:
        furthest = [each[source_partition] for each in (*known.values(), judged) if source_partition in each]
        if SINK_NAME in without_positions and furthest:
            known[SINK_NAME][source_partition] = max(furthest)
    untouched = [
        each
        for each in runner.available
        if not any(each.source_partition in (positions or {}) for positions in found.values())
    ]
    starts = runner.source.starts(runner.available)
    begun = {**former.starts, **reported}
    for each in untouched:
        # No sink was written to from here yet: it began where it said it did, or later, as a new partition.
        if any(each.source_partition.topic_id == other.topic_id for other in begun):
            first = sink_progress.first_of(each, Committed(0, begun))
            starts[each.source_partition] = begun.get(each.source_partition, first)
        elif starts[each.source_partition] > each.first:
            _require_fixed_start(runner, each.source_partition, found.values())
    # On record for each: beside a sink that goes on, one without a position must not be taken for one added later.
    begins = dict.fromkeys(known, starts)
    made = Committed(
        0,
        starts,
        known,
        begins=begins,
        cluster_id=runner.cluster_id,
        target_ids=runner.target_ids,
        targets=runner.targets,
        formerly=former.formerly,
        file_ends={each: end for each, end in former.file_ends.items() if each in starts},
    )
    records.record(runner.paths.gaps, forsaken(runner))
    crash_point("gap_recorded")
    runner.checkpoint.create(made)
    return known


def _require_fixed_start(runner: Runner, source_partition: SourcePartition, found: Iterable[Positions | None]) -> None:
    """Raise if a pipeline that has read the topic would now begin a partition of it at another offset."""
    has_run = any(each.topic_id == source_partition.topic_id for positions in found for each in positions or {})
    if has_run and runner.source.start_moves_on():
        raise Conflict(
            f"where pipeline '{runner.spec.name}' began at {source_partition} is not known any more, and its `start`"
            " would be another place now: what came in between would never be read",
            safe="Nothing was read, and no checkpoint was made",
            fix="Say in the file from where that is to be read, with `start: earliest`, a time, or `offsets`, and"
            " rebuild again; afterwards `start` is not looked at any more",
        )


def forsaken(runner: Runner) -> list[Gap]:
    """Return what a rebuild leaves unread: the rest of topics, or of a cluster, that were replaced.

    The former checkpoint knows that. If it is lost, the record beside it says which topics were read, and the sinks
    know how far; from the start, where Kafka has forgotten that.
    """
    former = _former(runner)
    if not former.starts:
        former = _on_record(runner)
    if former.cluster_id != runner.cluster_id:
        return _unread(runner, former, dict.fromkeys(former.starts, "another cluster"), "rebuild")
    return _unread(runner, former, _gone(runner, former), "rebuild")


def _former(runner: Runner) -> Committed:
    """Return the former checkpoint; None if there is none, or it cannot be read."""
    with suppress(CheckpointLost):
        if runner.checkpoint.exists:
            return runner.checkpoint.load()
    return Committed(0, {})


def _on_record(runner: Runner) -> Committed:
    known = runner.known_topics.load()
    source_partitions = list(known.starts)
    sinks = {name: dict(store.positions(source_partitions) or {}) for name, store in runner.stores.items()}
    return replace(known, sinks=sinks)


def _is_behind(former: Committed, name: str, positions: Positions) -> bool:
    """Return whether a sink is further than the former checkpoint says, which is then an old copy or incomplete."""
    held = {**former.starts, **former.sinks.get(name, {})}
    return any(at > held.get(each, 0) for each, at in positions.items())


def _kept(runner: Runner, former: Committed, source_partitions: list[SourcePartition]) -> dict[str, Positions]:
    """Return the positions that each sink and the dead letters have by themselves, before any are corrected."""
    for sink in runner.sinks:
        sink.known_target_id = former.target_ids.get(sink.name, "")
    return {name: dict(store.positions(source_partitions) or {}) for name, store in runner.stores.items()}


def _has_rows_beyond(former: Committed, sink: Sink, kept: Positions) -> bool:
    """Return whether a sink whose positions Kafka has forgotten has rows beyond the checkpoint's."""
    held = {**former.starts, **former.sinks.get(sink.name, {})}
    forgotten = {each: at for each, at in held.items() if each.in_kafka and each not in kept}
    return sink.positions_expire and bool(forgotten) and bool(sink.beyond(forgotten))


def _with_changes(error: Conflict, changed: list[str]) -> Conflict:
    """Return a sink's refusal, which also says that others were changed before it."""
    if not changed:
        return error
    names = ", ".join(f"'{name}'" for name in changed)
    safe = f"Positions of {names} that were outdated are removed, which changes no row; nothing else was changed"
    return Conflict(error.what, safe=safe, fix=error.fix)


def _settled(runner: Runner, former: Committed, source_partitions: list[SourcePartition]) -> frozenset[SourcePartition]:
    """Return the partitions without an unfinished batch, as far as the former checkpoint knows."""
    with suppress(CheckpointLost):
        return runner.checkpoint.settled(former, source_partitions)
    return frozenset()


def planned_gaps(runner: Runner) -> list[Gap]:
    """Return what would be skipped: offsets that retention deleted, and the rest of a topic that was recreated."""
    return _find(runner)[1]


def skip_gaps(runner: Runner) -> list[Gap]:
    """Record the gaps, then move every sink past them; nothing is moved that is not recorded."""
    committed, found = _find(runner)
    if not found:
        return []
    records.record(runner.paths.gaps, found)
    crash_point("gap_recorded")
    progress = runner.sink_progress(committed, runner.available)
    sinks = {name: dict(positions) for name, positions in committed.sinks.items()}
    for gap in sink_progress.missing(progress, runner.available):
        source_partition, end = gap.source_partition, gap.end
        for sink in runner.sinks:
            start = progress.resume_offsets[sink.name][source_partition]
            if start < end:
                sink.prepare(
                    [Staged(OffsetRange(source_partition, start, end), 0, {})],
                    {source_partition: progress.expected[sink.name][source_partition]},
                )
                sink.commit()
                crash_point("sink_committed", sink.name)
        if progress.resume_offsets[SINK_NAME][source_partition] < end:
            runner.dead.commit(
                [], {source_partition: progress.expected[SINK_NAME][source_partition]}, {source_partition: end}
            )
            crash_point("sink_committed", SINK_NAME)
        for name in runner.stores:
            sinks.setdefault(name, {})[source_partition] = max(end, progress.resume_offsets[name][source_partition])
    runner.checkpoint.commit(replace(committed, sinks=sinks))
    return found


def skip(spec: PipelineSpec, connection: Connection, paths: PipelinePaths, which: str, reason: str) -> Gap:
    """Give up one record, `TOPIC:PARTITION:OFFSET`: it is recorded as a gap, and no batch will read it.

    It works whatever fails, because it needs neither Spark nor a sink; the driver must not be running.
    """
    if spec.is_stateful or spec.speed == "realtime" or not spec.source.in_kafka:
        raise BadInput("records can be skipped in a pipeline that reads Kafka by batches")
    topic, number, offset = _parsed(which)
    checkpoint = Checkpoint(paths.checkpoint, spec.name)
    with checkpoint.locked():
        _require_begun(checkpoint)
        committed = checkpoint.load()
        sink_progress.require_same_cluster(spec.name, committed.cluster_id, cluster_id(Admin(connection)))
        available = spec.source.open(SourceContext(connection)).available()
        sink_progress.require_same_topics(
            spec.name, committed, {each.source_partition.topic: each.source_partition.topic_id for each in available}
        )
        committed = sink_progress.with_new_partitions(committed, available)
        found = [
            each
            for each in available
            if (each.source_partition.topic, each.source_partition.partition) == (topic, number)
        ]
        if not found:
            raise NotFound(f"pipeline '{spec.name}' reads no partition {number} of a topic '{topic}'")
        source_partition = found[0].source_partition
        at = committed.lowest((*spec.sink_names, SINK_NAME), source_partition)
        if not max(found[0].first, at) <= offset < found[0].end:
            raise Conflict(
                f"pipeline '{spec.name}' is at offset {at} of {source_partition}, which holds {found[0].first} to"
                f" {found[0].end}: {offset} is not ahead of it",
                safe="Nothing was changed",
            )
        if any(
            start <= offset < end
            for start, end in records.ranges(paths.gaps).get((source_partition.topic_id, number), [])
        ):
            raise Conflict(f"offset {offset} of {source_partition} is skipped already", safe="Nothing was changed")
        gap = Gap.of(spec.name, source_partition, (offset, offset + 1), reason, "skip")
        records.record(paths.gaps, [gap])
    return gap


def _require_begun(checkpoint: Checkpoint) -> None:
    if not checkpoint.exists:
        raise Conflict(
            f"pipeline '{checkpoint.pipeline}' has no checkpoint in {checkpoint.folder}: it has not begun, or lost it",
            safe="Nothing was changed",
            fix="Run it: it begins where `start` in its file says, or says how to continue",
        )


def _parsed(which: str) -> tuple[str, int, int]:
    topic, _, rest = which.partition(":")
    number, _, offset = rest.partition(":")
    if not topic or not (number + offset).isascii() or not number.isdecimal() or not offset.isdecimal():
        raise BadInput(f"'{which}' is not a record: name it TOPIC:PARTITION:OFFSET, such as orders:0:42")
    return topic, int(number), int(offset)


def _find(runner: Runner) -> tuple[Committed, list[Gap]]:
    _require_begun(runner.checkpoint)
    name, former = runner.spec.name, runner.continued(runner.checkpoint.load())
    gone = _gone(runner, former)
    found = _unread(runner, former, gone, "skip-gap")
    kept = former.without(lambda source_partition: source_partition in gone)
    recreated = {source_partition.topic for source_partition, reason in gone.items() if reason == _RECREATED}
    # All records of such a topic came after the pipeline: one that retention took is a gap, as in a new partition.
    new = {each.source_partition: 0 for each in runner.available if each.source_partition.topic in recreated}
    kept = replace(kept, starts={**kept.starts, **new})
    committed, changed = sink_progress.with_new_leaders(
        sink_progress.with_new_partitions(kept, runner.available), runner.available
    )
    for each in runner.replaced(changed):
        found.append(Gap.of(name, each.source_partition, (each.start, each.end), "log truncated", "skip-gap"))
    progress = runner.sink_progress(committed, runner.available)
    for each in sink_progress.missing(progress, runner.available):
        found.append(Gap.of(name, each.source_partition, (each.start, each.end), "retention", "skip-gap"))
    return committed, found


def _gone(runner: Runner, former: Committed) -> dict[SourcePartition, str]:
    """Return the partitions that are gone, each with the reason; topics that the file no longer has do not count."""
    ids = runner.source.topic_ids()
    deleted = deleted_topics(runner.source, former, ids)
    recreated = [
        source_partition
        for source_partition in former.starts
        if ids.get(source_partition.topic) not in (None, source_partition.topic_id)
    ]
    return {
        **dict.fromkeys(recreated, _RECREATED),
        **{source_partition: TOPIC_DELETED for source_partition in former.starts if source_partition.topic in deleted},
    }


def _unread(
    runner: Runner, former: Committed, gone: dict[SourcePartition, str], by: Literal["skip-gap", "rebuild"]
) -> list[Gap]:
    """Return gaps for what was left unread of source partitions that are gone; where they ended is not known."""
    return [
        Gap.of(
            runner.spec.name,
            source_partition,
            (former.lowest(runner.stores, source_partition), None),
            reason,
            by,
        )
        for source_partition, reason in gone.items()
    ]
