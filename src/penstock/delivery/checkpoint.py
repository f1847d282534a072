"""The checkpoint: what this pipeline did last, besides the positions that the sinks keep themselves.

Three files in one folder, each with its format version. `metadata.json` says which pipeline it belongs to.
`planned.json` is written before a batch touches anything, `committed.json` after every sink has committed. Positions in
the sinks decide what is written; the checkpoint detects what positions alone cannot show: a table that was dropped, a
recreated topic, a pipeline that ran elsewhere. For sinks that keep no positions it is the position, hence at least
once.
"""

import itertools
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from penstock.delivery.crash_points import crash_point
from penstock.delivery.durable import read_versioned, write_versioned
from penstock.delivery.holding import held
from penstock.errors import CheckpointLost, Conflict
from penstock.record.formats import CHECKPOINT
from penstock.record.positions import OffsetRange, Positions, SourcePartition, from_json, to_json

DRIVER_LOCK = "driver.lock"
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Rows = list[tuple[str, str, _Count, _Count]]
_Part = TypeVar("_Part")

_OUSTED = "~"
"""Stands behind the name, and before a number, of a sink that was taken out and whose name another one has got."""


class _StoredMove(msgspec.Struct):
    formers: tuple[str, ...]
    positions: _Rows


class _Stored(msgspec.Struct):
    """What `committed.json` must look like."""

    batch: _Count
    starts: _Rows
    sinks: dict[str, _Rows]
    epochs: _Rows
    begins: dict[str, _Rows]
    cluster_id: str
    target_ids: dict[str, str]
    ran: list[str] = []
    targets: dict[str, str] = {}
    moves: dict[str, _StoredMove] = {}
    formerly: dict[str, dict[str, _Rows]] = {}
    file_ends: _Rows = []


@dataclass(frozen=True)
class Move:
    """A renamed sink whose target does not know the new name yet."""

    formers: tuple[str, ...]
    """Its former name."""
    positions: Positions
    """Where it stands."""


@dataclass(frozen=True)
class Committed:
    """Where everything stood after a batch."""

    batch: int
    starts: Positions
    """Where the pipeline began at each partition."""
    sinks: dict[str, Positions] = field(default_factory=dict)
    """Per sink, the next offset that it needs."""
    epochs: Positions = field(default_factory=dict)
    """Per partition, the epoch of a leader whose log held everything before these offsets."""
    begins: dict[str, Positions] = field(default_factory=dict)
    """Per sink, where it begins at partitions that it has no position at yet: decided once, and kept after any
    crash."""
    cluster_id: str = ""
    """Kafka's id of the cluster that topics, ids and offsets are of."""
    target_ids: dict[str, str] = field(default_factory=dict)
    """For sinks whose positions Kafka may forget, the id of the topic that they write to."""
    ran: tuple[str, ...] = ()
    """The sinks of the last batch; others with positions were removed from the file before it."""
    targets: dict[str, str] = field(default_factory=dict)
    """What each sink writes to, by which a renamed sink is recognised."""
    moves: dict[str, Move] = field(default_factory=dict)
    """Sinks that have yet to take over their positions under their new names."""
    formerly: dict[str, dict[str, Positions]] = field(default_factory=dict)
    """Per sink, its former names, and how far records were judged when it was renamed."""
    file_ends: Positions = field(default_factory=dict)
    """Where files end that were not read to the end: one that is removed does not tell any more."""

    def __post_init__(self) -> None:
        """Drop beginnings that a position has replaced."""
        begins = {
            name: {
                source_partition: at
                for source_partition, at in positions.items()
                if source_partition not in self.sinks.get(name, {})
            }
            for name, positions in self.begins.items()
        }
        object.__setattr__(self, "begins", begins)

    def reached(self, name: str, source_partition: SourcePartition) -> int:
        """Return the next offset that a sink needs.

        One that has never written begins with the pipeline, or, if it came later, where that stands. Once that is on
        record it holds: after a kill, others may stand where this sink has not been yet. Where sinks stand that were
        taken out of the file says nothing, but for those of the last batch: it may be one of them by another name.
        """
        if (known := self._known(name, source_partition)) is not None:
            return known
        found = (self._known(each, source_partition) for each in self.ran or self.sinks)
        others = [each for each in found if each is not None]
        return min(others) if others else self.starts[source_partition]

    def _known(self, name: str, source_partition: SourcePartition) -> int | None:
        position = self.sinks.get(name, {}).get(source_partition)
        return self.begins.get(name, {}).get(source_partition) if position is None else position

    def lowest(self, names: Iterable[str], source_partition: SourcePartition) -> int:
        """Return the first offset that any of these sinks still needs; those not named were taken out of the file."""
        return min(self.reached(name, source_partition) for name in names)

    def formers(self, targets: Mapping[str, str]) -> dict[str, list[str]]:
        """Name, for each sink of the file that is new to its target, those that wrote there and do not any more.

        They are the same sink by another name. If there are several, those count that the last batch was for; ousted
        ones only if there are no others, and not for a sink that gets the name back.
        """
        left = [name for name, target in self.targets.items() if targets.get(name) != target]
        found = {}
        for name, target in targets.items():
            same = [each for each in left if self.targets[each] == target and ousted_name(each) != name]
            same = [each for each in same if ousted_name(each) is None] or same
            if same and self.targets.get(name) != target:
                found[name] = [each for each in same if each in self.ran] or same
        return found

    def called_now(self, sink: str | None, source_partition: SourcePartition, offset: int) -> str | None:
        """Return what the sink is called that a dead letter of this record was made for."""
        known = {name: formers[sink] for name, formers in self.formerly.items() if sink is not None and sink in formers}
        if not source_partition.in_kafka:
            return next(iter(known), sink)  # of files it is not known how far they were judged
        ends = {name: until.get(source_partition, 0) for name, until in known.items()}
        # Another sink may have had the same name later, and another one since.
        return min((name for name, end in ends.items() if offset < end), key=ends.__getitem__, default=sink)

    def renamed(
        self, moves: Mapping[str, Move], targets: Mapping[str, str], names: Container[str], judged: Positions
    ) -> "Committed":
        """Put sinks by another name in the place of those that they were, after records were `judged` up to there.

        A former name that the file, with these `names`, has for a sink of another target stays: it is missed there. A
        sink that was taken out, and whose name one of them gets, is an ousted one from here on.
        """
        new = {former: name for name, move in moves.items() for former in move.formers}
        gone = {*moves, *(former for former in new if former not in names)}
        ousted = {name: self._ousted(name) for name in moves.keys() & {*self.sinks, *self.targets} if name not in new}
        formerly = {
            name: {
                was: until
                for former in move.formers
                for was, until in {**self.formerly.get(former, {}), former: judged}.items()
            }
            for name, move in moves.items()
        } | {another: {**self.formerly.get(name, {}), name: judged} for name, another in ousted.items()}
        there = {ousted[name]: self.targets[name] for name in ousted if name in self.targets}

        def moved(part: Mapping[str, _Part]) -> dict[str, _Part]:
            left = {name: each for name, each in part.items() if name not in gone}
            former = {name: move.formers[0] for name, move in moves.items()}
            return {**left, **{name: part[each] for name, each in former.items() if each in part}}

        def untouched(part: Mapping[str, _Part]) -> dict[str, _Part]:
            # What a former name stands for is the new one's now, even where the file has it for another sink.
            return {name: each for name, each in part.items() if name not in {*moves, *new}}

        sinks = moved(self.sinks)
        return replace(
            self,
            sinks={**sinks, **{name: {**sinks.get(name, {}), **move.positions} for name, move in moves.items()}},
            begins=moved(self.begins),
            target_ids=moved(self.target_ids),
            targets={**untouched(self.targets), **there, **{name: targets[name] for name in moves}},
            formerly={**untouched(self.formerly), **formerly},
            ran=tuple(dict.fromkeys(new.get(each, each) for each in self.ran)),
            moves={**moved(self.moves), **moves},
        )

    def _ousted(self, name: str) -> str:
        numbered = (f"{name}{_OUSTED}{number}" for number in itertools.count(1))
        return next(each for each in numbered if each not in {*self.targets, *self.formerly})

    def without(self, is_gone: Callable[[SourcePartition], bool]) -> "Committed":
        """Leave partitions out."""

        def left(positions: Positions) -> Positions:
            return {source_partition: at for source_partition, at in positions.items() if not is_gone(source_partition)}

        sinks, begins = (
            {name: left(positions) for name, positions in part.items()} for part in (self.sinks, self.begins)
        )
        moves = {name: replace(move, positions=left(move.positions)) for name, move in self.moves.items()}
        formerly = {
            name: {former: left(until) for former, until in formers.items()} for name, formers in self.formerly.items()
        }
        starts, epochs, ends = left(self.starts), left(self.epochs), left(self.file_ends)
        return replace(
            self,
            starts=starts,
            sinks=sinks,
            epochs=epochs,
            begins=begins,
            moves=moves,
            formerly=formerly,
            file_ends=ends,
        )


def ousted_name(name: str) -> str | None:
    """Return what a sink was called that was taken out, and whose name is another's now; None if it is none such."""
    was, mark, _ = name.partition(_OUSTED)
    return was if mark else None


class Checkpoint:
    """The checkpoint's folder of one pipeline."""

    def __init__(self, folder: Path, pipeline: str) -> None:
        self.folder = folder
        self.pipeline = pipeline

    @property
    def _metadata(self) -> Path:
        return self.folder / "metadata.json"

    @property
    def _planned(self) -> Path:
        return self.folder / "planned.json"

    @property
    def _committed(self) -> Path:
        return self.folder / "committed.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the checkpoint for one driver; the kernel releases the lock when the driver dies, however it dies."""
        with ExitStack() as stack:
            try:
                stack.enter_context(held(self.folder.parent / DRIVER_LOCK))
            except BlockingIOError:
                raise Conflict(
                    f"pipeline '{self.pipeline}' is running already",
                    safe="This second driver has touched nothing",
                    fix=f"See it with: penstock pipeline status {self.pipeline}",
                ) from None
            yield

    @property
    def exists(self) -> bool:
        """Return whether the pipeline has begun; raise `FormatNotUnderstood` for a checkpoint of another version."""
        self._require_understood()
        # Not by `committed.json` alone, which is what a driver leaves that dies while it makes the checkpoint. It has
        # planned nothing yet, so it has read nothing, and starting over loses nothing.
        return self._metadata.exists() or self._planned.exists()

    def _require_understood(self) -> None:
        """Raise before anything is decided from an incomplete checkpoint, or from a missing one."""
        for path in (self._metadata, self._planned, self._committed):
            with suppress(CheckpointLost):
                self._read(path)

    def create(self, committed: Committed) -> None:
        """Create a checkpoint: the start of the pipeline is fixed before it reads anything."""
        self._planned.unlink(missing_ok=True)
        crash_point("checkpoint_cleared")
        self.commit(committed)
        crash_point("checkpoint_begun")
        write_versioned(self._metadata, CHECKPOINT, {"pipeline": self.pipeline})

    def load(self) -> Committed:
        """Read what was committed last; raise `CheckpointLost` if a part is missing or makes no sense."""
        metadata = self._read(self._metadata)
        if metadata.get("pipeline") != self.pipeline:
            raise self._lost(f"{self._metadata.name} belongs to pipeline '{metadata.get('pipeline')}'")
        data = self._read(self._committed)
        try:
            stored = msgspec.convert(data, _Stored)
        except msgspec.ValidationError as error:
            raise self._lost(f"{self._committed.name} makes no sense: {error}") from None
        sinks, begins = (
            {name: from_json(rows) for name, rows in part.items()} for part in (stored.sinks, stored.begins)
        )
        moves = {name: Move(move.formers, from_json(move.positions)) for name, move in stored.moves.items()}
        return Committed(
            stored.batch,
            from_json(stored.starts),
            sinks,
            from_json(stored.epochs),
            begins,
            stored.cluster_id,
            stored.target_ids,
            tuple(stored.ran),
            stored.targets,
            moves,
            {
                name: {former: from_json(rows) for former, rows in formers.items()}
                for name, formers in stored.formerly.items()
            },
            from_json(stored.file_ends),
        )

    def plan(self, batch: int, offset_ranges: list[OffsetRange]) -> None:
        """Record what is about to be read, before any task starts."""
        rows = [
            [
                each.source_partition.topic,
                each.source_partition.topic_id,
                each.source_partition.partition,
                each.start,
                each.end,
            ]
            for each in offset_ranges
        ]
        write_versioned(self._planned, CHECKPOINT, {"batch": batch, "offset_ranges": rows})

    def require_plan(self) -> None:
        """Raise `CheckpointLost` if the plan of the last batch cannot be read."""
        if self._planned.exists():
            self._read(self._planned)

    def settled(self, committed: Committed, source_partitions: Iterable[SourcePartition]) -> frozenset[SourcePartition]:
        """Return the partitions at which every planned batch has ended, so that the sinks stand where this says."""
        planned = self._read(self._planned) if self._planned.exists() else None
        if planned is None or planned.get("batch") == committed.batch:
            return frozenset(source_partitions)
        try:
            unfinished = {SourcePartition(*offset_range[:3]) for offset_range in planned["offset_ranges"]}
        except (KeyError, TypeError):
            raise self._lost(f"{self._planned.name} makes no sense") from None
        return frozenset(source_partitions) - unfinished

    def commit(self, committed: Committed) -> None:
        """Record all positions, after every sink has committed."""
        data = {
            "batch": committed.batch,
            "starts": to_json(committed.starts),
            "sinks": {name: to_json(positions) for name, positions in committed.sinks.items()},
            "epochs": to_json(committed.epochs),
            "begins": {name: to_json(positions) for name, positions in committed.begins.items()},
            "cluster_id": committed.cluster_id,
            "target_ids": committed.target_ids,
            "ran": list(committed.ran),
            "targets": committed.targets,
            "moves": {
                name: {"formers": list(move.formers), "positions": to_json(move.positions)}
                for name, move in committed.moves.items()
            },
            "formerly": {
                name: {former: to_json(until) for former, until in formers.items()}
                for name, formers in committed.formerly.items()
            },
            "file_ends": to_json(committed.file_ends),
        }
        write_versioned(self._committed, CHECKPOINT, data)

    def _read(self, path: Path) -> dict[str, Any]:
        rebuild = f"move {self.folder} away and run: penstock pipeline rebuild {self.pipeline}"
        try:
            return read_versioned(path, CHECKPOINT, otherwise=rebuild)
        except FileNotFoundError:
            raise self._lost(f"{path.name} is missing") from None
        except ValueError:
            raise self._lost(f"{path.name} is damaged") from None

    def _lost(self, reason: str) -> CheckpointLost:
        return lost(self.pipeline, f"in {self.folder}, {reason}")


def lost(pipeline: str, reason: str) -> CheckpointLost:
    """Return the error for a checkpoint that cannot be used, with the command that rebuilds it."""
    return CheckpointLost(
        f"the checkpoint of pipeline '{pipeline}' is lost: {reason}",
        safe="What the sinks hold is intact, and they know their positions",
        fix=f"Rebuild it from them with: penstock pipeline rebuild {pipeline}",
    )
