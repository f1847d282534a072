"""How far each sink has got, and whether it is safe to go on from there.

Read from the sinks at every start and after every failure, and compared with the checkpoint: the sinks know what is
written, the checkpoint knows what should be there. Where their difference could be a loss, the pipeline stops.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from penstock.delivery.checkpoint import Checkpoint, Committed, lost
from penstock.errors import ClusterReplaced, LogTruncated, PositionLost, RetentionPassed, TopicRecreated
from penstock.record.available_range import AvailableRange
from penstock.record.positions import OffsetRange, Positions, SourcePartition


class PositionStore(Protocol):
    """What keeps positions: a sink, or the dead letters."""

    positions_expire: bool
    """Whether positions are offsets of a Kafka group, which Kafka forgets after a week without a change."""

    def positions(self, source_partitions: Iterable[SourcePartition]) -> Positions | None:
        """Read them; None if it keeps none."""

    def hold(self, positions: Positions) -> None:
        """Remember all positions, if they could be forgotten."""

    def refresh(self) -> None:
        """Write those that could be forgotten again."""

    def beyond(self, positions: Positions) -> Positions:
        """Return the positions of what it holds beyond these, which Kafka forgot."""


@dataclass(frozen=True)
class SinkProgress:
    """Per sink (the dead letters are one), its position at each partition; None where it has never written."""

    expected: dict[str, dict[SourcePartition, int | None]]
    resume_offsets: dict[str, Positions]
    """The same with a number everywhere: where each sink's part of an offset range begins."""
    held: dict[str, Positions] = field(default_factory=dict)
    """Per sink, the positions that it has, or had before Kafka forgot them."""
    kept: frozenset[str] = frozenset()
    """The sinks that keep their positions themselves."""

    def forgotten(self) -> list[str]:
        """Name the sinks whose positions, or some of them, Kafka has forgotten."""
        return [
            name
            for name, held in self.held.items()
            if name in self.kept
            and any(
                source_partition.in_kafka and self.expected[name][source_partition] is None for source_partition in held
            )
        ]

    def start(self, source_partition: SourcePartition) -> int:
        """Return the first offset that any sink still needs."""
        return min(positions[source_partition] for positions in self.resume_offsets.values())


def begin(
    checkpoint: Checkpoint,
    stores: Mapping[str, PositionStore],
    available: list[AvailableRange],
    beginning: Committed,
    reported: Positions,
    *,
    is_replay: bool = False,
) -> Committed:
    """Load the checkpoint, or create one for a pipeline that has never run; raise if it has run and there is none.

    `beginning` is the content of a new one. `reported` is what the lag group has: the only trace of a pipeline whose
    sinks keep no positions. If Kafka has forgotten all that, rows and letters tell; those of a replay are not asked
    for, as it has an id of its own.
    """
    if checkpoint.exists:
        return checkpoint.load()
    source_partitions = [available_range.source_partition for available_range in available]
    # The report first: reading it waits for no transaction that a driver elsewhere has open.
    if reported:
        raise lost(checkpoint.pipeline, f"there is none in {checkpoint.folder}, and its lag has been reported before")
    for name, store in stores.items():
        if store.positions(source_partitions):
            raise lost(checkpoint.pipeline, f"there is none in {checkpoint.folder}, and sink '{name}' has positions")
        if store.positions_expire and not is_replay and store.beyond(dict.fromkeys(source_partitions, 0)):
            raise lost(checkpoint.pipeline, f"there is none in {checkpoint.folder}, and sink '{name}' was written to")
    checkpoint.create(beginning)
    return beginning


def with_new_partitions(committed: Committed, available: list[AvailableRange]) -> Committed:
    """Add partitions and topics that have appeared; they are read from their start."""
    starts = {
        **{available_range.source_partition: first_of(available_range, committed) for available_range in available},
        **committed.starts,
    }
    return replace(committed, starts=starts)


def first_of(available_range: AvailableRange, committed: Committed) -> int:
    """Return where a partition begins that the pipeline has not met.

    A new partition of a known topic begins at 0, whatever is left of it by now: all its records came after the
    pipeline, so one that retention took before it was read is a gap, and must be noticed. The age of a new topic is not
    known; it begins with what it holds.
    """
    known = {(source_partition.topic, source_partition.topic_id) for source_partition in committed.starts}
    return (
        0
        if (available_range.source_partition.topic, available_range.source_partition.topic_id) in known
        else available_range.first
    )


def require_same_targets(pipeline: str, committed: Committed, target_ids: Mapping[str, str]) -> None:
    """Raise if a sink that was written to has another target now: positions do not show it, if Kafka forgot them."""
    for name, known in committed.target_ids.items():
        if committed.sinks.get(name) and target_ids.get(name, known) != known:
            raise PositionLost(
                f"the topic of sink '{name}' was deleted and recreated, or is another one now, and lacks what pipeline"
                f" '{pipeline}' has sent before",
                safe="Nothing was written",
                fix=f"To fill it from the source's start, run: penstock pipeline rebuild {pipeline}",
            )


def require_same_cluster(pipeline: str, known: str, found: str) -> None:
    """Raise if another cluster answers: its topics and offsets are others, whatever they are called."""
    if known != found:
        raise ClusterReplaced(
            f"another Kafka cluster answers (its id is {found}) than the one that pipeline '{pipeline}' has read"
            f" ({known})",
            safe="Nothing was read from it, and the checkpoint is as it was",
            fix="Connect to the former one again, or, to begin with this one, run:"
            f" penstock pipeline rebuild {pipeline}",
        )


def require_same_topics(pipeline: str, committed: Committed, topic_ids: Mapping[str, str]) -> None:
    """Raise if a topic has another id than the one whose offsets the positions are."""
    for source_partition in committed.starts:
        current = topic_ids.get(source_partition.topic)
        if current is not None and current != source_partition.topic_id:
            raise TopicRecreated(
                f"topic '{source_partition.topic}' was deleted and recreated (its id was"
                f" {source_partition.topic_id}, and is {current})",
                safe="Nothing of the new topic was read; what the sinks hold is intact",
                fix=f"To read the new one from its start, run: penstock pipeline skip-gap {pipeline}",
            )


def read(
    pipeline: str,
    stores: Mapping[str, PositionStore],
    committed: Committed,
    source_partitions: list[SourcePartition],
    settled: Container[SourcePartition] = (),
    targets: Mapping[str, str] | None = None,
) -> SinkProgress:
    """Ask every sink for its positions.

    `settled` are partitions at which no batch was left unfinished: there the checkpoint knows every position, and one
    that Kafka has forgotten is taken from it. `targets` are what the sinks write to now.
    """
    expected: dict[str, dict[SourcePartition, int | None]] = {}
    resume_offsets: dict[str, Positions] = {}
    held: dict[str, Positions] = {}
    kept = set()
    for name, store in stores.items():
        known = committed.sinks.get(name, {})
        former, now = committed.targets.get(name, ""), (targets or {}).get(name, "")
        found = store.positions(source_partitions)
        if found is not None:
            kept.add(name)
        if found is None:
            found = {
                source_partition: known[source_partition]
                for source_partition in source_partitions
                if source_partition in known
            }
        elif store.positions_expire:
            # Of files, no group can have a position: the checkpoint has it, and what was judged is looked up.
            unsettled = [each for each in source_partitions if each.in_kafka and each not in settled]
            _require_found(pipeline, name, known, found, unsettled, (former, now))
        else:
            _require_found(pipeline, name, known, found, source_partitions, (former, now))
        expected[name] = {source_partition: found.get(source_partition) for source_partition in source_partitions}
        held[name] = {
            **{
                source_partition: known[source_partition]
                for source_partition in source_partitions
                if source_partition in known
            },
            **found,
        }
        resume_offsets[name] = {
            source_partition: held[name][source_partition]
            if source_partition in held[name]
            else committed.reached(name, source_partition)
            for source_partition in source_partitions
        }
    return SinkProgress(expected, resume_offsets, held, frozenset(kept))


def _require_found(
    pipeline: str,
    name: str,
    known: Positions,
    found: Positions,
    source_partitions: list[SourcePartition],
    targets: tuple[str, str],
) -> None:
    former, now = targets
    for source_partition in source_partitions:
        if source_partition in known and source_partition not in found:
            if former and now and former != now:
                raise PositionLost(
                    f"sink '{name}' has written to {former} until now, and is to write to {now}, which has none of it",
                    safe="Nothing was written, and the former one is as it was",
                    fix="Name the former one again: a relative path counts from the folder of the pipeline file, which"
                    " may have been moved. Or, to fill the new one from the source's start, run:"
                    f" penstock pipeline rebuild {pipeline}",
                )
            raise PositionLost(
                f"sink '{name}' had everything of {source_partition} before offset {known[source_partition]}, and"
                " has no position any more:"
                " its table, folder or topic was dropped or replaced, or its group expired",
                safe="Nothing was written",
                fix="To continue after what it holds, or else from the source's start, run:"
                f" penstock pipeline rebuild {pipeline}",
            )


def require_current(
    pipeline: str,
    stores: Mapping[str, PositionStore],
    committed: Committed,
    progress: SinkProgress,
    settled: Container[SourcePartition],
) -> None:
    """Raise if Kafka has forgotten positions, and any sink shows that the checkpoint which has them is an old copy.

    Call this before the first of them is restored. A sink shows it by a position, or by rows, beyond the checkpoint's
    position, at a partition where no batch was left unfinished.
    """
    forgotten = progress.forgotten()
    if not forgotten:
        return
    for name in progress.kept:
        found = {each: at for each, at in progress.expected[name].items() if at is not None and each in settled}
        _require_not_beyond(pipeline, forgotten[0], name, committed, found)
    for name in forgotten:
        _require_not_beyond(pipeline, name, name, committed, stores[name].beyond(progress.held[name]))


def _require_not_beyond(pipeline: str, forgotten: str, name: str, committed: Committed, found: Positions) -> None:
    for source_partition, at in found.items():
        known = committed.reached(name, source_partition)
        if at > known:
            raise PositionLost(
                f"Kafka has forgotten the positions of sink '{forgotten}', and the checkpoint of pipeline"
                f" '{pipeline}' is"
                f" an old copy: by that, sink '{name}' had {source_partition} up to offset {known}, and by what it"
                f" holds up to {at}",
                safe="Nothing was written",
                fix=f"To continue after what the sinks hold, run: penstock pipeline rebuild {pipeline}",
            )


def with_removed_files(
    committed: Committed, available: list[AvailableRange], names: Iterable[str]
) -> list[AvailableRange]:
    """Add files that were removed before these sinks had read them: only the end of one is left, as after retention."""
    there, names = {each.source_partition for each in available}, list(names)
    removed = [
        AvailableRange(source_partition, end, end)
        for source_partition, end in committed.file_ends.items()
        if source_partition not in there and committed.lowest(names, source_partition) < end
    ]
    return [*available, *removed]


def recorded(
    progress: SinkProgress, committed: Committed, targets: Mapping[str, str], available: list[AvailableRange]
) -> Committed:
    """Return the checkpoint with what an unfinished batch has done, what sinks write to, and where new sinks begin.

    It has to be saved before the next plan replaces the unfinished one.
    """
    sinks = {name: {**committed.sinks.get(name, {}), **held} for name, held in progress.held.items()}
    files = [each for each in available if not each.source_partition.in_kafka]
    return replace(
        committed,
        sinks={**committed.sinks, **sinks},
        begins={**committed.begins, **progress.resume_offsets},
        targets={**committed.targets, **targets},
        file_ends={
            each.source_partition: each.end for each in files if progress.start(each.source_partition) < each.end
        },
    )


def require_readable(
    pipeline: str,
    progress: SinkProgress,
    available: list[AvailableRange],
    log_end: Callable[[SourcePartition], int] = lambda _: 0,
) -> None:
    """Raise if records were deleted from a topic before they were read, or if it ends before what was read.

    A pipeline may begin at records of a transaction that is open, behind everything that is available: `log_end` is
    asked where those end.
    """
    for each in available:
        furthest = max(positions[each.source_partition] for positions in progress.resume_offsets.values())
        if furthest > each.end and furthest > log_end(each.source_partition):
            raise LogTruncated(
                f"{each.source_partition} ends at {each.end}, and pipeline '{pipeline}' has read up to {furthest}:"
                " a leader without the newest records was elected",
                safe="Nothing more was read; new records would get offsets that were used before",
                fix="Send the lost records to a new topic, and read that",
            )
    gaps = missing(progress, available)
    if gaps:
        raise RetentionPassed(
            f"records were deleted before pipeline '{pipeline}' read them: {', '.join(map(str, gaps))}",
            safe="What was read before is in the sinks, and nothing was skipped yet",
            fix=("" if all(gap.source_partition.in_kafka for gap in gaps) else "Put the files back. ")
            + f"To continue without them, and have that recorded, run: penstock pipeline skip-gap {pipeline}",
        )


def with_new_leaders(
    committed: Committed, available: list[AvailableRange]
) -> tuple[Committed, dict[SourcePartition, tuple[int, int]]]:
    """Take over the leaders' epochs; return where they changed, with the former epoch and how far it was read.

    Everything before the end that a leader reported was in its log. So a batch that ends there, and the epoch, belong
    together, whoever leads when the batch is read.
    """
    changed = {}
    for each in available:
        read = max(
            (at[each.source_partition] for at in committed.sinks.values() if each.source_partition in at), default=0
        )
        epoch = committed.epochs.get(each.source_partition, each.leader_epoch)
        if read and epoch is not None and each.leader_epoch not in (None, epoch):
            changed[each.source_partition] = (read, epoch)
    now = {each.source_partition: each.leader_epoch for each in available if each.leader_epoch is not None}
    return replace(committed, epochs={**committed.epochs, **now}), changed


def require_not_replaced(pipeline: str, replaced: list[OffsetRange]) -> None:
    """Raise if a log was cut off before what was read, and has grown past it since, with other records."""
    for each in replaced:
        raise LogTruncated(
            f"from offset {each.start} on, {each.source_partition} holds other records than pipeline '{pipeline}'"
            " has read,"
            f" which was up to {each.end}: a leader without the newest records was elected",
            safe="What was read is in the sinks, and nothing more was read",
            fix=f"To continue from offset {each.end}, and have it recorded, run: penstock pipeline skip-gap {pipeline}",
        )


def missing(progress: SinkProgress, available: list[AvailableRange]) -> list[OffsetRange]:
    """Find what some sink still needs and the source no longer has."""
    starts = {
        available_range.source_partition: progress.start(available_range.source_partition)
        for available_range in available
    }
    return [
        OffsetRange(each.source_partition, starts[each.source_partition], each.first)
        for each in available
        if starts[each.source_partition] < each.first
    ]


def plan(progress: SinkProgress, available: list[AvailableRange], max_events: int) -> list[OffsetRange]:
    """Share a batch fairly among the partitions that have something to read."""
    waiting = {each.source_partition: each.end - progress.start(each.source_partition) for each in available}
    waiting = {source_partition: count for source_partition, count in waiting.items() if count > 0}
    shares = dict.fromkeys(waiting, 0)
    left = max_events
    while left > 0 and any(shares[source_partition] < waiting[source_partition] for source_partition in waiting):
        # The longest backlog first: a batch smaller than the number of partitions then starves nobody.
        hungry = sorted((each for each in waiting if shares[each] < waiting[each]), key=lambda each: -waiting[each])
        portion = max(1, left // len(hungry))
        for source_partition in hungry:
            more = min(portion, waiting[source_partition] - shares[source_partition], left)
            shares[source_partition] += more
            left -= more
    return [
        OffsetRange(source_partition, progress.start(source_partition), progress.start(source_partition) + share)
        for source_partition, share in shares.items()
        if share
    ]
