"""How a replay stands, of dead letters or of a range: each that the console begins is a command in the background."""

from typing import Annotated, Literal

from fastapi import Path
from pydantic import BaseModel, Field

from penstock.console.service import Console

ReplayId = Annotated[str, Path(pattern="^[0-9a-f]{8}$", description="The replay's id.")]
State = Literal["running", "waiting", "done", "given up"]


class ReplayState(BaseModel, frozen=True):
    """State of a replay."""

    replay: str = Field(description="Its id.")
    state: State = Field(
        description="waiting: nobody runs it; the command of its kind goes on with it: dead replay --resume ID, or"
        " pipeline replay FILE --resume ID."
    )
    said: list[str] = Field(description="The last lines of the command that this console started.")


def state_of(console: Console, replay_id: str, *, is_done: bool, is_given_up: bool) -> ReplayState:
    """Return how it stands; it runs as long as its command does, so that what is done has said everything."""
    state: State = "waiting"
    if console.commands.is_running(replay_id):
        state = "running"
    elif is_done or is_given_up:
        state = "done" if is_done else "given up"
    return ReplayState(replay=replay_id, state=state, said=console.commands.said(replay_id))
