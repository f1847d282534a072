"""A consumer in a process of its own, which can be killed with -9, and the journal that outlives it."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field

from penstock.errors import BrokerUnavailable
from penstock.interpreter import SAFE_PYTHON
from penstock.kafka.connection import Connection

_LEAVE_S = 20.0


class MemberTask(BaseModel, frozen=True, extra="forbid"):
    """What a member does. Processing a record means a line in the journal, or a record in the topic `output`."""

    name: str = Field(description="Name of the client, as the group shows it.")
    connection: Connection = Field(description="The cluster.")
    topic: str = Field(description="Topic to read.")
    group: str = Field(description="Group to join.")
    commit: Literal["automatic", "before", "after", "transaction"] = Field(
        "after", description="When the position moves: in the background, before or after processing, or with it."
    )
    output: str | None = Field(None, description="Topic to write to.")
    max_events: int = Field(20, ge=1, description="Records a batch.")
    hold_after: int | None = Field(None, ge=1, description="After this many records stand still, to be killed there.")
    instance_id: str | None = Field(None, description="Static membership: a restart takes the place of the dead one.")


class Entry(BaseModel, frozen=True):
    """A line of the journal."""

    event: Literal["processed", "holding"] = Field(description="What happened.")
    value: str = Field("", description="The record's value.")


class Member:
    """A running member. It leaves its group when told, and also when this process is gone."""

    def __init__(self, task: MemberTask, journal: Path) -> None:
        self.task = task
        self._journal = journal
        self._complaints = journal.with_suffix(".err")
        journal.touch()
        with self._complaints.open("wb") as complaints:
            # A session of its own: Ctrl-C is ours to handle, and the member ends with its input.
            self._process = subprocess.Popen(
                [*SAFE_PYTHON, "-m", "penstock.lab.drills.member_process", str(journal)],
                stdin=subprocess.PIPE,
                stderr=complaints,
                env={name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")},
                start_new_session=True,
            )
        self._send(task.model_dump_json().encode() + b"\n")

    def entries(self) -> list[Entry]:
        """Read the journal; raise if the process has ended by itself in trouble."""
        if self._process.poll() not in {None, 0, -9}:
            last = self._complaints.read_text(encoding="utf-8").strip().splitlines()[-1:]
            raise BrokerUnavailable(f"consumer {self.task.name} stopped: {last[0] if last else 'without a word'}")
        lines = self._journal.read_bytes().split(b"\n")
        return [Entry.model_validate_json(line) for line in lines[:-1]]

    def processed(self) -> list[str]:
        """Return the values of the records that were processed, in order."""
        return [entry.value for entry in self.entries() if entry.event == "processed"]

    @property
    def holds(self) -> bool:
        """Return whether it stands still at `hold_after`."""
        return any(entry.event == "holding" for entry in self.entries())

    def kill(self) -> None:
        """End it with kill -9, if it is there."""
        self._process.kill()
        self._process.wait(_LEAVE_S)
        self._hang_up()

    def leave(self) -> None:
        """Let it finish the current batch, leave the group and end."""
        self._hang_up()
        try:
            self._process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerUnavailable(f"consumer {self.task.name} did not leave within {_LEAVE_S:.0f} s") from None
        self.entries()

    def _send(self, line: bytes) -> None:
        stream = self._process.stdin
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.write(line)
                stream.flush()

    def _hang_up(self) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
