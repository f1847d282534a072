"""What a service consists of: programs that run together, and the file that describes them to their supervisor."""

import os
from collections.abc import Iterable
from pathlib import Path

import psutil
from pydantic import BaseModel, Field

from penstock.config import state_file
from penstock.jvm.java import java_environment
from penstock.record.formats import SERVICE

_FILE = "launch.json"


class Program(BaseModel, frozen=True, extra="forbid"):
    """One process of a service. No secret is in its command: those are in files of the service's folder."""

    name: str = Field(description="What it is called in the status and in messages.")
    command: tuple[str, ...] = Field(min_length=1, description="The command and its arguments.")
    variables: tuple[str, ...] = Field(
        (),
        description="Variables of the shell that it gets besides those of every JVM, by name; values are in no file.",
    )


class Launch(BaseModel, frozen=True, extra="forbid"):
    """All programs of a service, in the order in which they are started."""

    programs: tuple[Program, ...] = Field(min_length=1, description="The programs.")

    def save(self, folder: Path) -> None:
        """Write it for the supervisor."""
        state_file.save(folder / _FILE, SERVICE, self)


def environment(programs: Iterable[Program]) -> dict[str, str]:
    """Return the variables that programs get; what else a shell holds, passwords among it, stays out."""
    named = {name for each in programs for name in each.variables}
    return {**java_environment(), **{name: value for name, value in os.environ.items() if name in named}}


def load(folder: Path) -> Launch | None:
    """Read what the supervisor was told last; None if there is nothing."""
    path = folder / _FILE
    safe, fix = "The service's data are untouched", f"Remove {path}, then run: penstock up"
    return state_file.load(path, SERVICE, Launch, safe=safe, fix=fix)


def left_behind(folder: Path) -> list[psutil.Process]:
    """Return the service's processes that run; after a kill of their supervisor they run unsupervised.

    A process is known by its whole command line, which names files of this service, and has to be this user's.
    """
    launch = load(folder)
    commands = {each.command for each in launch.programs} if launch else set()
    return [each for each in psutil.process_iter() if commands and _runs_one_of(each, commands)]


def _runs_one_of(process: psutil.Process, commands: set[tuple[str, ...]]) -> bool:
    try:
        return tuple(process.cmdline()) in commands and process.uids().real == os.getuid()
    except psutil.Error:
        return False
