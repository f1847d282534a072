"""Sending dead letters through their pipeline again, once."""

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.delivery.dead_letters import DeadLetter
from penstock.delivery.ledger import Ledger, Replay
from penstock.engine import session
from penstock.engine.driver import MASTER, account, home_of
from penstock.engine.runner import Runner
from penstock.engine.status import Status
from penstock.errors import BadInput, NotFound
from penstock.pipeline.load import load

if TYPE_CHECKING:
    from penstock.settings import Settings


def begin(settings: "Settings", letters: list[DeadLetter], file: Path) -> Replay:
    """Fix the selection under a new id and claim its letters: nobody else replays or discards them from here on."""
    spec = load(file)
    strangers = {letter.pipeline for letter in letters} - {spec.name}
    if strangers:
        raise BadInput(
            f"the selection holds dead letters of pipeline '{min(strangers)}', and the file is '{spec.name}'",
            fix=f"Add --pipeline {spec.name}",
        )
    chosen: dict[str, dict[int, list[int]]] = {}
    for letter in letters:
        chosen.setdefault(letter.dead_topic, {}).setdefault(letter.dead_partition, []).append(letter.dead_offset)
    replay = Replay(
        id=secrets.token_hex(4), pipeline=spec.name, file=str(file.resolve()), state="started", letters=chosen
    )
    Ledger(settings.connection()).claim(letters, replay)
    return replay


def find(settings: "Settings", replay_id: str) -> Replay:
    """Look up a replay that was begun."""
    found = Ledger(settings.connection()).replays().get(replay_id)
    if found is None:
        raise NotFound(f"there is no replay '{replay_id}'")
    return found


def run(settings: "Settings", replay: Replay, file: Path | None = None) -> Status:
    """Run a replay to its end. Run again after a crash, it goes on where it was; after its end, it does nothing."""
    path = file or Path(replay.file)
    spec = load(path)
    home = home_of(settings, spec.name).replay(replay.id)
    status = Status(pipeline=spec.name, state="running", pid=0, file=str(path))
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
