"""Players and workers of a scenario that runs, as somebody wants them now: said by a file in its folder."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from pydantic import BaseModel, Field

from penstock.errors import BatchAborted
from penstock.lab.scenarios.arena import Arena
from penstock.lab.scenarios.driver_process import DriverProcess

FILE = "scale.json"
_LOOK_EVERY_S = 0.2


class Scaled(BaseModel, frozen=True):
    """What is wanted; none leaves it as it is."""

    players: int | None = Field(None, ge=2, description="Users who play.")
    workers: int | None = Field(None, ge=1, description="How many land at once.")


def wanted(folder: Path) -> Scaled:
    """Read what is wanted now; nothing if nobody has said so. The file is replaced whole."""
    with suppress(FileNotFoundError):
        return Scaled.model_validate_json((folder / FILE).read_bytes())
    return Scaled()


class ScaledDriver:
    """The driver of a file, restarted with another number of tasks at once when that is wanted."""

    def __init__(self, arena: Arena, file: Path) -> None:
        self._arena, self._file = arena, file
        self.process = self._start()
        self.changes: list[int] = []
        """How many landed at once, each time that it was changed."""
        self._failure: BaseException | None = None

    def _start(self) -> DriverProcess:
        return DriverProcess(self._arena.folder, self._file, "--master", self._arena.master)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Do as is wanted while the block runs; what goes wrong meanwhile is raised behind it."""
        ending = Event()
        thread = Thread(target=self._follow, args=[ending], name="scaling")
        thread.start()
        try:
            yield
        finally:
            ending.set()
            thread.join()
        if self._failure is not None:
            raise self._failure

    def _follow(self, ending: Event) -> None:
        try:
            while not ending.wait(_LOOK_EVERY_S):
                workers = wanted(self._arena.folder).workers
                if workers is not None and workers != self._arena.workers:
                    try:
                        self.process.stop()  # it finishes its batch
                    except BatchAborted:  # it was only starting; nothing is lost, whatever it did
                        self.process.kill()
                    self._arena.workers = workers
                    self.process = self._start()
                    self.changes.append(workers)
        except Exception as error:  # noqa: BLE001 - it is raised in the thread that waits
            self._failure = error
