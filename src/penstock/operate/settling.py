"""What a replay may settle: dead letters whose sinks it writes to, all of them, and nothing that it has not written."""

from collections.abc import Callable, Iterable
from contextlib import suppress
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


def untouched(
    runner: Runner, letters: Iterable[DeadLetter], place_of: Callable[[DeadLetter], tuple[SourcePartition, int]]
) -> list[DeadLetter]:
    """Return the letters whose records no sink has got by the runner's replay, and that have not failed in it anew.

    `place_of` says where the replay reads a letter's record. One that some of its sinks have and others lack is left
    out: sent once more, it would be in the former twice.
    """
    places = [(letter, *place_of(letter)) for letter in letters]
    offsets: dict[SourcePartition, list[int]] = {}
    for _, source_partition, offset in places:
        offsets.setdefault(source_partition, []).append(offset)
    reached = _reached(runner, list(offsets))
    judged = runner.dead.recorded([OffsetRange(at, min(found), max(found) + 1) for at, found in offsets.items()])
    failed = {(at, offset) for at, found in judged.items() for offset, _ in found}
    return [
        letter
        for letter, at, offset in places
        if (at, offset) not in failed
        and all(offset >= positions.get(at, 0) for name, positions in reached.items() if letter.sink in (None, name))
    ]


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
