"""What a replay may settle: only dead letters whose sinks it all writes to, and only what it has written."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.delivery.checkpoint import Checkpoint, Committed, ousted_name
from penstock.delivery.dead_letter import DeadLetter
from penstock.delivery.dead_letters import SINK_NAME
from penstock.delivery.ledger import Replay
from penstock.driver.runner import Runner
from penstock.errors import BadInput, CheckpointLost, Conflict, PositionsMoved
from penstock.operate.belonging import last_run
from penstock.operate.known_pipelines import paths_of
from penstock.pipeline.spec import PipelineSpec
from penstock.record.positions import OffsetRange, Positions, SourcePartition
from penstock.sinks.sink import Sink, Staged
from penstock.sources.range import Range

if TYPE_CHECKING:
    from penstock.config.settings import Settings


_ENDED = 2**62
"""Added to a sink's position, it says that a replay has ended there; the rest is how far it had got."""


@dataclass(frozen=True)
class LeftLetters:
    """What a replay that is given up leaves of its letters."""

    untouched: list[DeadLetter]
    """Letters that it wrote to no sink, and that did not fail in it again."""
    lacking: list[tuple[DeadLetter, str]]
    """Others, with each of their sinks that lacks them: sent to all sinks again, they would be doubled."""


def require_no_changes(spec: PipelineSpec) -> None:
    """Raise if rows are changes of a table: an older one would bring back a row that a later one has deleted."""
    if spec.has_changes:
        raise BadInput(
            f"pipeline '{spec.name}' mirrors a table (`cdc: state`): a change of the past would undo what came after",
            safe="Nothing was replayed",
            fix="Change the rows once more in the source, such as UPDATE orders SET id = id WHERE id = 7, and discard"
            " the letters; or fill the table again: penstock pipeline rebuild",
        )


def by_sink(letters: Iterable[DeadLetter], spec: PipelineSpec) -> tuple[list[DeadLetter], list[DeadLetter]]:
    """Return the letters whose sinks the file has, and the others, whose sinks were renamed or removed."""
    names = {None, *spec.sink_names}
    own: list[DeadLetter] = []
    others: list[DeadLetter] = []
    for letter in letters:
        (own if letter.sink in names else others).append(letter)
    return own, others


def left_out(settings: "Settings", spec: PipelineSpec, letters: Iterable[DeadLetter]) -> list[str]:
    """Name sinks that the file lacks and that should get these letters: what failed for all failed for them, too.

    Those are the sinks that the live pipeline ran with last, whatever its file says now; if that is not on record,
    those that the checkpoint knows. And those that it had when a letter failed, wherever it ran; unless it has run from
    this home folder since, without them.
    """
    paths = paths_of(settings, spec.name)
    known, opened_ms = set[str](), 0
    with suppress(FileNotFoundError):
        last = last_run(paths.folder)
        known, opened_ms = {*last.sinks}, last.opened_ms
    checkpoint = Checkpoint(paths.checkpoint, spec.name)
    if not known and checkpoint.exists:
        with suppress(CheckpointLost):
            known = {*checkpoint.load().sinks} - {SINK_NAME}
    had = {name for letter in letters if letter.sink is None and letter.failed_ms >= opened_ms for name in letter.sinks}
    return sorted((known | had) - set(spec.sink_names))


def require_same_sinks(settings: "Settings", spec: PipelineSpec, letters: Iterable[DeadLetter]) -> None:
    """Raise if letters are for a sink that was renamed, and another sink of the file has its former name."""
    live = _live(settings, spec)
    for letter, name in _renamed_since(live, letters):
        written = dict(zip(spec.sink_names, spec.sinks, strict=True)).get(str(letter.sink))
        target = written.target() if written is not None else None
        if ousted_name(name) is not None:
            if str(target) == live.targets.get(str(letter.sink)):
                raise BadInput(
                    f"a dead letter of sink '{letter.sink}' was made for another sink of that name, which was taken out"
                    " of the file before this one got the name",
                    safe="Nothing was replayed",
                    fix="Discard it: penstock dead discard",
                )
            continue
        if target is not None and str(target) != live.targets.get(name, str(target)):
            raise BadInput(
                f"a dead letter of sink '{letter.sink}' was made before that was called '{name}', and '{letter.sink}'"
                " writes elsewhere now",
                safe="Nothing was replayed",
                fix=f"Give '{name}' the name '{letter.sink}' again, run the pipeline, and replay it then",
            )


def require_present_names(settings: "Settings", spec: PipelineSpec, letters: Iterable[DeadLetter]) -> None:
    """Raise if a range that is replaced has letters of a sink under a former name: they would write its rows again."""
    for letter, name in _renamed_since(_live(settings, spec), letters):
        place = f"{letter.topic}/{letter.partition} offset {letter.offset}"
        if ousted_name(name) is not None:
            raise Conflict(
                f"a dead letter of this range, {place}, was made for another sink that was called '{letter.sink}',"
                " which was taken out of the file before this one got the name",
                safe="Nothing was changed",
                fix=f"Discard it: penstock dead discard --pipeline {spec.name}",
            )
        raise Conflict(
            f"a dead letter of this range, {place}, was made for sink"
            f" '{name}' when that was called '{letter.sink}': replayed later, it would bring its row a second time",
            safe="Nothing was changed",
            fix=f"First replay the letters of '{letter.sink}' with the sink under that name, or discard them; see them"
            f" with: penstock dead list --pipeline {spec.name}",
        )


def _renamed_since(live: Committed, letters: Iterable[DeadLetter]) -> Iterator[tuple[DeadLetter, str]]:
    """Return the letters whose sinks were renamed since, with the new names."""
    for letter in letters:
        at = SourcePartition(letter.topic, letter.topic_id, letter.partition)
        name = live.called_now(letter.sink, at, letter.offset)
        if name is not None and name != letter.sink:
            yield letter, name


def _live(settings: "Settings", spec: PipelineSpec) -> Committed:
    """Return what the live pipeline's checkpoint says; nothing if there is none."""
    checkpoint = Checkpoint(paths_of(settings, spec.name).checkpoint, spec.name)
    with suppress(CheckpointLost):
        if checkpoint.exists:
            return checkpoint.load()
    return Committed(0, {})


def require_sinks(replay: Replay, spec: PipelineSpec, file: Path) -> None:
    """Raise `BadInput` if the file lacks a sink of the replay, which could not get its rows or tell its positions."""
    missed = sorted(set(replay.sinks) - set(spec.sink_names))
    if missed:
        raise BadInput(
            f"the replay {replay.id} has rows for sink '{missed[0]}', which {file} does not have",
            safe="Nothing was changed",
            fix="Add it to the file, under this name",
        )


def left_of(
    runner: Runner,
    letters: Iterable[DeadLetter],
    source_offset_of: Callable[[DeadLetter], tuple[SourcePartition, int]],
) -> LeftLetters:
    """End the runner's replay, and return what it leaves of its letters; `source_offset_of` says where it reads one.

    The replay may be running in another home folder, and must not write what is opened again here:
    1. Its dead letters, and sinks in Kafka, are fenced: from here on it begins no commit of a batch.
    2. Of a batch whose dead letters it has committed already, it may be about to commit the rows. So the position is
       moved away in every sink, by compare-and-set, and how far the sink has got is what it was moved from.
    3. What failed in it again is read after that.
    """
    located = [(letter, *source_offset_of(letter)) for letter in letters]
    runner.take_over()
    source_partitions = [each.source_partition for each in runner.available]
    reached = {sink.name: _ended(runner, sink, source_partitions) for sink in runner.sinks}
    offsets: dict[SourcePartition, list[int]] = {}
    for _, source_partition, offset in located:
        offsets.setdefault(source_partition, []).append(offset)
    judged = runner.dead.recorded([OffsetRange(at, min(found), max(found) + 1) for at, found in offsets.items()])
    left = LeftLetters([], [])
    for letter, at, offset in located:
        failed = {sink for failed_at, sink in judged[at] if failed_at == offset}
        sinks = [name for name in reached if letter.sink in (None, name)]
        without = [name for name in sinks if offset >= reached[name].get(at, 0) and not failed & {None, name}]
        if without == sinks:
            left.untouched.append(letter)
        else:
            left.lacking.extend((letter, name) for name in without)
    return left


def _ended(runner: Runner, sink: Sink, source_partitions: list[SourcePartition]) -> Positions:
    """Keep the replay from writing to a sink, and return how far it has got.

    For sinks whose positions Kafka may forget, or that keep none, the checkpoint says so; the former are fenced, the
    latter promise less.
    """
    if isinstance(runner.replay, Range) and runner.replay.replaces:
        sink.replace(dict.fromkeys(source_partitions, ()))  # nothing gives way to what is not written
    try:
        found = _moved_away(sink, source_partitions)
    except PositionsMoved:
        sink.abandon()
        found = _moved_away(sink, source_partitions)  # the batch that was about to be committed has been
    if found is not None and not sink.positions_expire:
        return found
    known: dict[str, Positions] = {}
    with suppress(CheckpointLost):
        known = runner.checkpoint.load().sinks if runner.checkpoint.exists else {}
    return {**known.get(sink.name, {}), **(found or {})}


def _moved_away(sink: Sink, source_partitions: list[SourcePartition]) -> Positions | None:
    found = sink.positions(source_partitions)
    if found is None or sink.positions_expire:
        return found
    here = [each for each in source_partitions if found.get(each, 0) < _ENDED]
    if here:
        ranges = [OffsetRange(each, found.get(each, 0), found.get(each, 0) + _ENDED) for each in here]
        sink.prepare([Staged(each, 0, {}) for each in ranges], {each: found.get(each) for each in here})
        sink.commit()
    return {each: at - _ENDED if at >= _ENDED else at for each, at in found.items()}
