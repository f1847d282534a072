"""What a replay may settle: dead letters whose sinks it writes to, all of them, and nothing that it has not written."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.delivery.checkpoint import Checkpoint
from penstock.delivery.dead_letters import SINK_NAME, DeadLetter
from penstock.delivery.ledger import Replay
from penstock.driver.runner import Runner
from penstock.errors import BadInput, CheckpointLost, Conflict
from penstock.operate.belonging import last_run
from penstock.operate.driver import paths_of
from penstock.pipeline.spec import PipelineSpec
from penstock.record.positions import OffsetRange, Positions, SourcePartition

if TYPE_CHECKING:
    from penstock.config.settings import Settings


_MOST_NAMED = 5


@dataclass(frozen=True)
class Left:
    """What a replay that is given up leaves behind of its letters."""

    untouched: list[DeadLetter]
    """Those that no sink has got by it, and that have not failed in it anew."""
    lacking: list[tuple[DeadLetter, str]]
    """Those that some of their sinks have, each with one that lacks it: sent once more, they would be there twice."""

    def warning(self) -> str:
        """Name what stays settled although a sink lacks it; nothing if there is none."""
        named = [
            f"{letter.dead_topic}/{letter.dead_partition} offset {letter.dead_offset} (sink '{sink}')"
            for letter, sink in self.lacking[:_MOST_NAMED]
        ]
        more = len(self.lacking) - len(named)
        listed = ", ".join(named) + (f" and {more} more" if more else "")
        return f"dead letters that one sink has and another lacks stay settled: {listed}" if named else ""


def by_sink(letters: Iterable[DeadLetter], spec: PipelineSpec) -> tuple[list[DeadLetter], list[DeadLetter]]:
    """Return the letters that the file has the sinks of, and the others: of sinks that were renamed or left out."""
    names = {None, *spec.sink_names}
    own: list[DeadLetter] = []
    others: list[DeadLetter] = []
    for letter in letters:
        (own if letter.sink in names else others).append(letter)
    return own, others


def left_out(settings: "Settings", spec: PipelineSpec) -> list[str]:
    """Name the sinks of the live pipeline that the file does not have: what failed for all failed for them, too.

    The live pipeline's sinks are those that it ran with last, whatever its file says now; if that is not on record,
    those that the checkpoint knows.
    """
    paths = paths_of(settings, spec.name)
    known: set[str] = set()
    with suppress(FileNotFoundError):
        known = {*last_run(paths.folder).sinks}
    checkpoint = Checkpoint(paths.checkpoint, spec.name)
    if not known and checkpoint.exists:
        with suppress(CheckpointLost):
            known = {*checkpoint.load().sinks} - {SINK_NAME}
    return sorted(known - set(spec.sink_names))


def require_sinks(replay: Replay, spec: PipelineSpec, file: Path) -> None:
    """Raise `BadInput` if the file lacks a sink of the replay: that would never get its rows, nor say what it has."""
    missed = sorted(set(replay.sinks) - set(spec.sink_names))
    if missed:
        raise BadInput(
            f"the replay {replay.id} has rows for sink '{missed[0]}', which {file} does not have",
            safe="Nothing was changed",
            fix="Add it to the file, under this name",
        )


def require_no_batch_between(runner: Runner, source_partitions: Iterable[SourcePartition]) -> None:
    """Raise `Conflict` if the replay may be between the commit of its dead letters and that of a sink, elsewhere.

    It was fenced from the former, and the latter knows no fence: what the sink lacks now, it may have in a moment.
    """
    if runner.checkpoint.exists:
        return  # it ran from this folder, and the lock of that is held here
    judged = runner.dead.positions(source_partitions)
    for sink in runner.sinks:
        found = sink.positions(judged)
        if found is None or sink.positions_expire:
            continue
        behind = next((at for at, end in judged.items() if found.get(at, 0) < end), None)
        if behind is not None:
            raise Conflict(
                f"a batch of the replay at {behind} is not in sink '{sink.name}' yet: it may be on its way there",
                safe="Nothing was opened again",
                fix="Try again in a moment; if it was killed there, go on with it or give it up in its own home folder",
            )


def left_of(
    runner: Runner, letters: Iterable[DeadLetter], place_of: Callable[[DeadLetter], tuple[SourcePartition, int]]
) -> Left:
    """Return what the runner's replay leaves of its letters; `place_of` says where it reads a letter's record."""
    places = [(letter, *place_of(letter)) for letter in letters]
    offsets: dict[SourcePartition, list[int]] = {}
    for _, source_partition, offset in places:
        offsets.setdefault(source_partition, []).append(offset)
    reached = _reached(runner, list(offsets))
    judged = runner.dead.recorded([OffsetRange(at, min(found), max(found) + 1) for at, found in offsets.items()])
    failed = {(at, offset) for at, found in judged.items() for offset, _ in found}
    left = Left([], [])
    for letter, at, offset in places:
        if (at, offset) in failed:
            continue
        sinks = [name for name in reached if letter.sink in (None, name)]
        without = [name for name in sinks if offset >= reached[name].get(at, 0)]
        if without == sinks:
            left.untouched.append(letter)
        else:
            left.lacking.extend((letter, name) for name in without)
    return left


def _reached(runner: Runner, source_partitions: list[SourcePartition]) -> dict[str, Positions]:
    """Ask every sink how far it has got; what Kafka may have forgotten, and what a sink keeps not, is on record."""
    known: dict[str, Positions] = {}
    with suppress(CheckpointLost):
        known = runner.checkpoint.load().sinks if runner.checkpoint.exists else {}
    reached = {}
    for sink in runner.sinks:
        found = sink.positions(source_partitions)
        on_record = known.get(sink.name, {}) if found is None or sink.positions_expire else {}
        reached[sink.name] = {**on_record, **(found or {})}
    return reached
