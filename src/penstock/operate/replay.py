"""Sending dead letters through their pipeline again, once."""

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from penstock.delivery.dead_letters import DeadLetter
from penstock.delivery.durable import read_versioned, write_versioned
from penstock.delivery.ledger import Ledger, Replay
from penstock.driver import session
from penstock.driver.runner import Runner
from penstock.errors import BadInput
from penstock.operate.driver import MASTER, account, home_of
from penstock.operate.status import Status
from penstock.pipeline.load import load
from penstock.pipeline.spec import NAME, PipelineSpec
from penstock.record.formats import REPLAY

if TYPE_CHECKING:
    from penstock.config.settings import Settings

_FILE = "letters.json"


class _Begun(BaseModel, frozen=True):
    """What is kept on this machine of a replay: the ledger, which others can write to, names no file to run."""

    file: Path = Field(description="The pipeline file it runs with.")


def begin(settings: "Settings", letters: list[DeadLetter], file: Path) -> Replay:
    """Fix the selection under a new id and claim its letters: nobody else replays or discards them from here on."""
    spec = load(file)
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
    chosen: dict[str, dict[int, list[int]]] = {}
    for letter in letters:
        chosen.setdefault(letter.dead_topic, {}).setdefault(letter.dead_partition, []).append(letter.dead_offset)
    replay = Replay(id=secrets.token_hex(4), pipeline=spec.name, letters=chosen)
    home = home_of(settings, spec.name).replay(replay.id)
    write_versioned(home.folder / _FILE, REPLAY, _Begun(file=file.resolve()).model_dump(mode="json"))
    Ledger(settings.connection()).claim(letters, replay)
    return replay


def find(settings: "Settings", replay_id: str) -> Replay:
    """Look up a replay that was begun."""
    return Ledger(settings.connection()).find(replay_id)


def run(settings: "Settings", replay: Replay, file: Path | None = None) -> Status:
    """Run a replay to its end. Run again after a crash, it goes on where it was; after its end, it does nothing."""
    path = file or _file_of(settings, replay)
    spec = _its_pipeline(path, replay)
    home = home_of(settings, spec.name).replay(replay.id)
    status = Status(pipeline=spec.name, state="running", pid=0, file=str(path))
    if replay.state == "done":
        status.state = "finished"
        return status
    with Runner(
        spec,
        settings.connection(),
        home,
        session.starter(spec, home.logs, MASTER),
        path.resolve().parent,
        replay=replay,
    ) as runner:
        runner.run(lambda progress: account(status, progress))
    Ledger(settings.connection()).finish(replay)
    status.state = "finished"
    return status


def _file_of(settings: "Settings", replay: Replay) -> Path:
    """Find the file that a replay was begun with on this machine."""
    if NAME.fullmatch(replay.pipeline) is not None:
        try:
            kept = home_of(settings, replay.pipeline).replay(replay.id).folder / _FILE
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
    return spec
