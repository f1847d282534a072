"""Running a range of a topic's past through a pipeline, beside the live driver and without touching it."""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from penstock.delivery import gaps
from penstock.delivery.checkpoint import Checkpoint
from penstock.delivery.dead_envelope import dead_topic_of
from penstock.delivery.dead_letter import DeadLetter, read
from penstock.delivery.dead_letters import SINK_NAME
from penstock.delivery.durable import read_versioned, write_versioned
from penstock.delivery.ledger import Ledger, Replay, require_not_given_up
from penstock.delivery.sink_progress import require_readable
from penstock.driver import session
from penstock.driver.paths import Progress
from penstock.driver.runner import Runner
from penstock.errors import (
    BadInput,
    ClusterReplaced,
    Conflict,
    Discontinuity,
    NotFound,
    PositionsMoved,
    Refused,
    RetentionPassed,
)
from penstock.kafka import topics
from penstock.kafka.admin import Admin
from penstock.operate.driver import MASTER, Show, account
from penstock.operate.known_ledger import note_ledger
from penstock.operate.known_pipelines import paths_of
from penstock.operate.repair import rebuild
from penstock.operate.replay_target import require_elsewhere, require_replaceable, target_key, with_other_targets
from penstock.operate.settling import (
    by_sink,
    left_of,
    left_out,
    require_no_changes,
    require_present_names,
    require_sinks,
)
from penstock.operate.status import Status
from penstock.pipeline.load import load
from penstock.pipeline.spec import PipelineSpec
from penstock.record.formats import REPLAY
from penstock.record.positions import OffsetRange, SourcePartition
from penstock.schemas.registry import with_registry
from penstock.sources.range import Part, Range, RangeSource, choose
from penstock.sources.source import SourceContext
from penstock.wording import plural

if TYPE_CHECKING:
    from penstock.config.settings import Settings

_FILE = "range.json"


class RangeReplay(BaseModel, frozen=True):
    """One replay of a range, as stored on disk; running it again after a crash continues it."""

    pipeline: str = Field(description="The pipeline.")
    file: str = Field(description="The pipeline file it runs with.")
    into: dict[str, str] = Field(description="Other targets by sink; empty if rows are replaced where they are.")
    range: Range = Field(description="The records.")
    is_claimed: bool = Field(default=False, description="Whether the dead letters of the range are settled by it.")
    is_done: bool = Field(default=False, description="Whether it is finished.")
    given_up: str = Field(default="", description="Why it can never be finished; empty while it may be.")

    @property
    def entry(self) -> Replay:
        """Return its entry in the ledger of dead letters."""
        offset_ranges = [(part.topic, part.topic_id, part.partition, part.start, part.end) for part in self.range.parts]
        return Replay(id=self.range.id, pipeline=self.pipeline, what="range", offset_ranges=offset_ranges)


def begin(
    settings: "Settings", file: Path, since: str, until: str, into: dict[str, str], *, replace: bool
) -> RangeReplay:
    """Fix the range under a new id."""
    replay = plan(settings, file, since, until, into, replace=replace)
    keep(settings, replay)
    return replay


def plan(
    settings: "Settings", file: Path, since: str, until: str, into: dict[str, str], *, replace: bool
) -> RangeReplay:
    """Work out which records a replay would read, and refuse what is impossible; nothing is written."""
    spec = load(file)
    require_no_changes(spec)
    if not spec.source.in_kafka:
        raise BadInput(f"pipeline '{spec.name}' does not read Kafka: there is no range to replay")
    if replace == bool(into):
        raise BadInput(
            "say where the rows go: --into SINK=TARGET for another table, or --replace for rows in the same one"
        )
    changed = with_other_targets(spec, into, Path.cwd())
    require_elsewhere(spec, changed if into else None)
    for sink in spec.sinks if replace else []:
        require_replaceable(sink)
    parts = choose(spec.source, settings.connection(), since, until)
    if replace:
        _require_not_compacted(settings, parts)
        parts = _landed(parts, Checkpoint(paths_of(settings, spec.name).checkpoint, spec.name), spec.sink_names)
    return RangeReplay(
        pipeline=spec.name,
        file=str(file.resolve()),
        into={str(sink.name): str(getattr(sink, target_key(sink))) for sink in changed.sinks} if into else {},
        range=Range(id=secrets.token_hex(4), parts=parts, replaces=replace),
    )


def keep(settings: "Settings", replay: RangeReplay) -> None:
    """Save a planned replay, so that it can be finished even after a crash."""
    paths = paths_of(settings, replay.pipeline).replay(replay.range.id)
    write_versioned(paths.folder / _FILE, REPLAY, replay.model_dump())


def find(settings: "Settings", pipeline: str, replay_id: str, file: Path | None = None) -> RangeReplay:
    """Find a replay that was begun; with its file, also one whose folder is lost, from the ledger."""
    kept = paths_of(settings, pipeline).replay(replay_id).folder / _FILE
    # An id is no path: it has eight hexadecimal digits.
    if re.fullmatch(r"[0-9a-f]{8}", replay_id) is None:
        raise NotFound(f"pipeline '{pipeline}' has no replay '{replay_id}' here")
    if kept.exists():
        return RangeReplay.model_validate(read_versioned(kept, REPLAY))
    entry = Ledger(settings.connection()).entries().replays.get(replay_id) if file is not None else None
    if file is None or entry is None or (entry.what, entry.pipeline) != ("range", pipeline):
        raise NotFound(f"pipeline '{pipeline}' has no replay '{replay_id}' here")
    fields = ("topic", "topic_id", "partition", "start", "end")
    parts = [Part.model_validate(dict(zip(fields, each, strict=True))) for each in entry.offset_ranges]
    _require_read(settings, load(file), parts)
    replay = RangeReplay(
        pipeline=pipeline,
        file=str(file.resolve()),
        into={},
        range=Range(id=replay_id, parts=parts, replaces=True),
        is_claimed=True,
        is_done=entry.state == "done",
    )
    write_versioned(kept, REPLAY, replay.model_dump())
    return replay


def _require_read(settings: "Settings", spec: PipelineSpec, parts: list[Part]) -> None:
    """Raise if the pipeline does not read one of these topics: anybody may have written them to the ledger."""
    live = spec.source.open(SourceContext(settings.connection())).topic_ids() if spec.source.in_kafka else {}
    for part in parts:
        if live.get(part.topic) != part.topic_id:
            raise Conflict(
                f"pipeline '{spec.name}' does not read the topic '{part.topic}' of the range, or that was recreated",
                safe="Nothing was changed",
            )


def run(settings: "Settings", replay: RangeReplay, *, show: Show, master: str = MASTER) -> Status:
    """Run a replay until it is finished; do nothing if it is already."""
    path = Path(replay.file)
    given = load(path)
    spec = with_other_targets(given, replay.into, path.parent)
    paths = paths_of(settings, spec.name).replay(replay.range.id)
    status = Status(pipeline=spec.name, state="running", pid=0, file=str(path))
    if replay.is_done:
        # Not even letters are looked at: those of the range that are open now are none of this replay's business.
        status.state = "finished"
        return status
    require_elsewhere(given, spec if replay.into else None)
    # The ledger hears of it first: a crash may have kept it from being written here.
    known = Ledger(settings.connection()).entries().replays.get(replay.range.id) if replay.range.replaces else None
    if known is not None:
        require_sinks(known, spec, path)
    if replay.given_up or (known is not None and known.state == "given_up"):
        raise Conflict(
            f"the replay {replay.range.id} was given up: {replay.given_up or 'it could not be finished'}",
            safe="Nothing was changed",
            fix="Begin a new replay of what is left",
        )

    def show_progress(progress: Progress) -> None:
        account(status, progress)
        show(status)

    start = session.starter(spec, paths.logs, master)
    with (
        Runner(
            with_registry(spec, settings.registry),
            settings.connection(),
            paths,
            start,
            path.parent,
            replay=replay.range,
        ) as runner,
        _way_out(settings, runner, replay.range.id),
    ):
        _require_there(settings, replay.range)
        if replay.is_claimed and not runner.checkpoint.exists:
            rebuild(runner)  # its folder was lost, and the sinks know how far it got
        if replay.range.replaces and not replay.is_claimed:
            _require_not_compacted(settings, replay.range.parts)
            # First: a range that has lost records already would settle their letters, and never stand for them.
            require_readable(spec.name, runner.sink_progress(runner.begin(), runner.available), runner.available)
            # Once, and before the first row: what is open in the range later on has failed after its rows were
            # replaced. From here on nobody replays the old letters, too, which would double what is about to land.
            within = _letters(settings, spec, replay.range)
            ledger = Ledger(settings.connection())
            settled = ledger.entries().settled
            require_present_names(settings, spec, (each for each in within if ledger.key_of(each) not in settled))
            letters = by_sink(within, spec)[0]
            _require_all_sinks(settings, spec, replay.range.id, letters)
            entry = replay.entry.model_copy(update={"sinks": spec.sink_names})
            ledger.replace(letters, entry)
            note_ledger(settings)
            replay = replay.model_copy(update={"is_claimed": True})
            write_versioned(paths.folder / _FILE, REPLAY, replay.model_dump())
        runner.run(show_progress)
    if replay.is_claimed:
        Ledger(settings.connection()).finish(replay.entry)
    write_versioned(paths.folder / _FILE, REPLAY, replay.model_copy(update={"is_done": True}).model_dump())
    status.state = "finished"
    return status


def _landed(parts: list[Part], checkpoint: Checkpoint, names: list[str]) -> list[Part]:
    """Leave out what the live pipeline has not landed: it would land that again, beside the replay's rows."""
    known = checkpoint.load().sinks if checkpoint.exists else {}
    sinks = [positions for name, positions in known.items() if name in {*names, SINK_NAME}]
    found = []
    for part in parts:
        source_partition = SourcePartition(part.topic, part.topic_id, part.partition)
        end = min([part.end, *(positions.get(source_partition, 0) for positions in sinks)]) if sinks else 0
        if part.start < end:
            found.append(part.model_copy(update={"end": end}))
    if not found:
        raise BadInput(
            f"pipeline '{checkpoint.pipeline}' has landed nothing of this range: there is nothing to replace",
            fix="Run the pipeline first, or choose an earlier range",
        )
    return found


def _require_there(settings: "Settings", chosen: Range) -> None:
    """Raise if a topic of the range was deleted: its records are gone like those that retention deleted."""
    gone = RangeSource(chosen, SourceContext(settings.connection())).gone()
    if gone:
        raise RetentionPassed(
            f"topic '{gone[0]}' was deleted before the replay {chosen.id} got to its end",
            safe="What was replaced before is in the sinks",
        )


@contextmanager
def _deletion_noticed(settings: "Settings", runner: Runner) -> Iterator[None]:
    try:
        yield
    except NotFound:
        if isinstance(runner.replay, Range):
            _require_there(settings, runner.replay)
        raise


@contextmanager
def _way_out(settings: "Settings", runner: Runner, replay_id: str) -> Iterator[None]:
    """Give up a replay whose records are gone, and say so: the fix for a live pipeline does not help a replay."""
    try:
        with _deletion_noticed(settings, runner):
            yield
    except ClusterReplaced:
        raise  # the former cluster has the records, and the ledger
    except PositionsMoved:
        # Somebody has it in another home folder, and may have ended it there.
        known = Ledger(settings.connection()).entries().replays.get(replay_id)
        if known is not None:
            require_not_given_up(known)
        raise
    except Discontinuity as error:
        if runner.checkpoint.exists:
            runner.require_same_cluster(runner.checkpoint.load())  # topics that are missing may be another cluster's
        kept = runner.paths.folder / _FILE
        replay = RangeReplay.model_validate(read_versioned(kept, REPLAY))
        if replay.is_claimed:
            # It will never get further: what it has judged is anybody's, and what it has not got to is open again.
            ledger = Ledger(settings.connection())
            settled = ledger.entries().settled
            letters = by_sink(_letters(settings, runner.spec, replay.range), runner.spec)[0]
            own = [each for each in letters if (by := settled.get(ledger.key_of(each))) and by.by == replay.range.id]
            left = left_of(runner, own, lambda letter: _source_offset_of(letter, replay.range))
            ledger.give_up(replay.entry, left.untouched, left.lacking)
        write_versioned(kept, REPLAY, replay.model_copy(update={"given_up": error.what}).model_dump())
        raise type(error)(error.what, safe=error.safe, fix="Begin a new replay of what is left") from None


def _require_not_compacted(settings: "Settings", parts: list[Part]) -> None:
    """Raise if a topic of the range is compacted: rows of missing records would be deleted and not replaced.

    The remaining offsets do not show which records are missing. A client that may not read settings trusts that they
    are as they should be.
    """
    admin = Admin(settings.connection())
    for topic in sorted({part.topic for part in parts}):
        with suppress(Refused):
            policy, _ = topics.config(admin, topic).get("cleanup.policy", ("", False))
            if "compact" in policy:
                raise BadInput(
                    f"topic '{topic}' is compacted: rows of records that compaction has taken would be taken out, and"
                    " nothing would come in their place",
                    safe="Nothing was changed",
                    fix="Send the range to another table with --into",
                )


def _require_all_sinks(settings: "Settings", spec: PipelineSpec, replay_id: str, letters: list[DeadLetter]) -> None:
    """Raise if letters would be settled whose records the replay sends to only some of their sinks."""
    ledger = Ledger(settings.connection())
    settled = ledger.entries().settled
    for_all = [letter for letter in letters if letter.sink is None and ledger.key_of(letter) not in settled]
    missed = left_out(settings, spec, for_all)
    if for_all and missed:
        raise Conflict(
            f"{plural(len(for_all), 'dead letter')} of this range failed for all sinks, and sink '{missed[0]}' is not"
            " in the file: settled by this replay, they would never get there",
            safe="Nothing was changed",
            fix=f"Send them to all sinks first: penstock dead replay --pipeline {spec.name}; then continue with"
            f" --resume {replay_id}",
        )


def _letters(settings: "Settings", spec: PipelineSpec, chosen: Range) -> list[DeadLetter]:
    """Return the dead letters of what is replaced, settled or not; a missed one could be replayed in addition.

    Letters of records that the replay does not read are left out.
    """
    skipped = gaps.ranges(paths_of(settings, spec.name).gaps)
    replaced = [part for parts in chosen.replaced(skipped).values() for part in parts]
    found: list[DeadLetter] = []
    for topic in sorted({dead_topic_of(part.topic, spec.dead_letters.topic, spec.name) for part in chosen.parts}):
        with suppress(NotFound):  # nothing has failed yet
            letters = read(settings.connection(), topic, pipeline=spec.name, wait_for_open_transactions=True)
            found += (letter for letter in letters if any(_is_within(letter, part) for part in replaced))
    return found


def _source_offset_of(letter: DeadLetter, chosen: Range) -> tuple[SourcePartition, int]:
    """Return the source partition and the offset at which the range reads the record of a letter."""
    return SourcePartition(letter.topic, chosen.source_id(letter.topic_id), letter.partition), letter.offset


def _is_within(letter: DeadLetter, part: OffsetRange) -> bool:
    at = part.source_partition
    return (letter.topic_id, letter.partition) == (at.topic_id, at.partition) and part.start <= letter.offset < part.end
