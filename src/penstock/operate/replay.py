"""Sending dead letters through their pipeline again, once."""

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from penstock.delivery.checkpoint import Checkpoint
from penstock.delivery.dead_letter import DeadLetter, read
from penstock.delivery.durable import read_versioned, write_versioned
from penstock.delivery.ledger import Ledger, Replay, require_not_given_up
from penstock.driver import session
from penstock.driver.paths import Progress
from penstock.driver.runner import Runner
from penstock.errors import BadInput, Conflict, PositionsMoved, TopicRecreated
from penstock.operate.driver import MASTER, Show, account
from penstock.operate.known_ledger import note_ledger, require_same_ledger
from penstock.operate.known_pipelines import paths_of
from penstock.operate.settling import by_sink, left_of, left_out, require_no_changes, require_same_sinks, require_sinks
from penstock.operate.status import Status
from penstock.pipeline.load import load
from penstock.pipeline.spec import NAME, PipelineSpec
from penstock.record.formats import REPLAY
from penstock.record.positions import SourcePartition
from penstock.schemas.registry import with_registry
from penstock.sources.replay import source_offset_of
from penstock.wording import plural

if TYPE_CHECKING:
    from penstock.config.settings import Settings

_FILE = "letters.json"


class _Begun(BaseModel, frozen=True):
    """What this machine keeps of a replay: the ledger, which others can write to, names no file to run."""

    file: Path = Field(description="The pipeline file it runs with.")


class Replayable(BaseModel, frozen=True):
    """Letters that a file can replay, and which it cannot."""

    letters: list[DeadLetter] = Field(description="Those that it can.")
    left_out: list[str] = Field(description="Those that it cannot, counted by why.")


def replayable(letters: list[DeadLetter], file: Path) -> Replayable:
    """Leave out what cannot be replayed, unless that is everything: then `begin` says why."""
    left_out: list[str] = []
    stubs = [letter for letter in letters if letter.stub is not None]
    if 0 < len(stubs) < len(letters):
        left_out.append(f"{plural(len(stubs), 'letter')} without the record itself")
        letters = [letter for letter in letters if letter.stub is None]
    own, others = by_sink(letters, load(file))
    if own and others:
        left_out.append(f"{plural(len(others), 'letter')} of sink '{others[0].sink}', which {file} does not have")
        letters = own
    return Replayable(letters=letters, left_out=left_out)


def begin(settings: "Settings", letters: list[DeadLetter], file: Path) -> Replay:
    """Fix the selection under a new id and claim its letters: from now on nobody else can replay or discard them."""
    require_same_ledger(settings)
    spec = load(file)
    require_no_changes(spec)
    strangers = {letter.pipeline for letter in letters} - {spec.name}
    if strangers:
        raise BadInput(
            f"the selection holds dead letters of pipeline '{min(strangers)}', and the file is '{spec.name}'",
            fix=f"Add --pipeline {spec.name}",
        )
    stub = next((letter for letter in letters if letter.stub is not None), None)
    if stub is not None:
        where = f"{stub.dead_topic}/{stub.dead_partition} offset {stub.dead_offset}"
        record = f"{stub.topic}/{stub.partition} offset {stub.offset}"
        raise BadInput(
            f"the dead letter at {where} is a stub, and cannot be replayed: it does not hold its record,"
            f" {record} ({stub.stub})",
            safe="Nothing was replayed",
            fix="While the topic holds the record, penstock pipeline replay reads it there; then discard the letter",
        )
    _, strange = by_sink(letters, spec)
    if strange:
        raise BadInput(
            f"{len(strange)} of these dead letters are of sink '{strange[0].sink}', which {file} does not have:"
            f" there are {', '.join(spec.sink_names)}",
            safe="Nothing was replayed",
            fix="Name the sink as it was; or, if it is gone for good, discard them",
        )
    require_same_sinks(settings, spec, letters)
    missed = left_out(settings, spec, letters)
    for_all = sum(1 for letter in letters if letter.sink is None)
    if missed and for_all:
        raise BadInput(
            f"{for_all} of these dead letters failed for all sinks, and {file} does not have sink '{missed[0]}', which"
            " would never get their rows",
            safe="Nothing was replayed",
            fix="Add it to the file; if it is gone for good, run the pipeline once without it, and replay them from the"
            " home folder that it ran from",
        )
    chosen: dict[str, dict[int, list[int]]] = {}
    ends: dict[tuple[str, str, int, str | None], int] = {}
    for letter in letters:
        chosen.setdefault(letter.dead_topic, {}).setdefault(letter.dead_partition, []).append(letter.dead_offset)
        source = (letter.topic, letter.topic_id, letter.partition, letter.sink)
        ends[source] = max(letter.offset + 1, ends.get(source, 0))
    listed = [(*source, end) for source, end in ends.items()]
    sinks = spec.sink_names if for_all else sorted({str(letter.sink) for letter in letters})
    replay = Replay(id=secrets.token_hex(4), pipeline=spec.name, letters=chosen, ends=listed, sinks=sinks)
    paths = paths_of(settings, spec.name).replay(replay.id)
    write_versioned(paths.folder / _FILE, REPLAY, _Begun(file=file.resolve()).model_dump(mode="json"))
    Ledger(settings.connection()).claim(letters, replay)
    note_ledger(settings)
    return replay


def find(settings: "Settings", replay_id: str) -> Replay:
    """Find a replay that was begun."""
    return Ledger(settings.connection()).find(replay_id)


def run(settings: "Settings", replay: Replay, file: Path | None = None, *, show: Show = lambda _status: None) -> Status:
    """Run a replay until it is finished.

    Running it again after a crash continues it; once finished, it does nothing.
    """
    path = file or _file_of(settings, replay)
    spec = with_registry(_its_pipeline(path, replay), settings.registry)
    paths = paths_of(settings, spec.name).replay(replay.id)
    status = Status(pipeline=spec.name, state="running", pid=0, file=str(path))
    if replay.state == "done":
        status.state = "finished"
        return status
    require_not_given_up(replay)
    ledger = Ledger(settings.connection())

    def show_progress(progress: Progress) -> None:
        account(status, progress)
        show(status)

    with Runner(
        spec,
        settings.connection(),
        paths,
        session.starter(spec, paths.logs, MASTER),
        path.resolve().parent,
        replay=replay,
    ) as runner:
        _require_landed(runner, replay, Checkpoint(paths_of(settings, spec.name).checkpoint, spec.name))
        try:
            runner.run(show_progress)
        except PositionsMoved:
            require_not_given_up(ledger.entries().replays.get(replay.id, replay))
            raise
    ledger.finish(replay)
    status.state = "finished"
    return status


class GivenUp(BaseModel, frozen=True):
    """What became of the letters of a replay that was given up."""

    replay: str = Field(description="Its id.")
    open_again: int = Field(description="Letters that are open as they were: no sink had got them.")
    open_for_one_sink: int = Field(description="New letters, each for one sink that lacks what another has got.")
    settled: int = Field(description="Letters that stay settled: written, failed again, or open for single sinks.")


def give_up(settings: "Settings", replay_id: str, file: Path | None = None) -> GivenUp:
    """Give up a replay: letters are open again for the sinks that lack them."""
    ledger = Ledger(settings.connection())
    known = ledger.entries().replay_of_letters(replay_id)
    if known.state != "started":
        raise Conflict(f"the replay {replay_id} is {known.state.replace('_', ' ')} already", safe="Nothing was changed")
    try:
        replay = ledger.find(replay_id)
    except TopicRecreated:
        ledger.give_up(known, [])  # nobody has the letters any more
        return GivenUp(replay=replay_id, open_again=0, open_for_one_sink=0, settled=0)
    path = file or _file_of(settings, replay)
    spec = with_registry(_its_pipeline(path, replay), settings.registry)
    paths = paths_of(settings, spec.name).replay(replay_id)
    chosen = {topic: {part: {*offsets} for part, offsets in parts.items()} for topic, parts in replay.letters.items()}
    letters = [
        letter
        for letter in read(settings.connection(), *chosen, pipeline=spec.name, wait_for_open_transactions=True)
        if letter.dead_offset in chosen[letter.dead_topic].get(letter.dead_partition, ())
    ]
    start = session.starter(spec, paths.logs, MASTER)
    with Runner(spec, settings.connection(), paths, start, path.resolve().parent, replay=replay) as runner:
        left = left_of(runner, letters, lambda letter: source_offset_of(letter, replay))
        opened = ledger.give_up(replay, left.untouched, left.lacking)
    return GivenUp(
        replay=replay_id, open_again=opened, open_for_one_sink=len(left.lacking), settled=replay.count - opened
    )


def _require_landed(runner: Runner, replay: Replay, live: Checkpoint) -> None:
    """Raise if a sink has lost what the live pipeline wrote around the letters' records, and will get it again.

    That is worked out from the existing rows, which must not contain replayed ones.
    """
    known = live.load().sinks if live.exists else {}
    for sink in runner.sinks:
        ends = {
            SourcePartition(topic, topic_id, partition): end
            for topic, topic_id, partition, name, end in sorted(replay.ends, key=lambda each: each[-1])
            if name in (None, sink.name)
        }
        found = sink.positions(ends)
        if found is None or sink.positions_expire:
            continue
        for source_partition, end in ends.items():
            had = known.get(sink.name, {}).get(source_partition)
            if found.get(source_partition, 0 if had is not None else end) < end:
                raise Conflict(
                    f"sink '{sink.name}' has not written up to {source_partition} offset {end - 1}, which the replay"
                    f" {replay.id} has a letter of: its table was dropped or restored, or a batch has not ended",
                    safe="Nothing was written",
                    fix="Run the pipeline until it has caught up; then: penstock dead replay --resume " + replay.id,
                )


def _file_of(settings: "Settings", replay: Replay) -> Path:
    """Find the file with which a replay was begun on this machine."""
    if NAME.fullmatch(replay.pipeline) is not None:
        try:
            kept = paths_of(settings, replay.pipeline).replay(replay.id).folder / _FILE
            return _Begun.model_validate(read_versioned(kept, REPLAY)).file
        except (OSError, ValueError):
            pass
    raise BadInput(
        f"the replay {replay.id} was not begun here, so its pipeline file is not known", fix="Name it with --file"
    )


def _its_pipeline(path: Path, replay: Replay) -> PipelineSpec:
    spec = load(path)
    if spec.name != replay.pipeline:
        raise BadInput(f"the replay {replay.id} is one of pipeline '{replay.pipeline}', and the file is '{spec.name}'")
    require_sinks(replay, spec, path)
    return spec
