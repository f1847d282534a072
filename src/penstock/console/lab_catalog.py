"""Which scenarios and drills there are: asked once, of the commands that run them."""

import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import orjson
from pydantic import BaseModel, Field

from penstock.errors import BadInput, EnvironmentNotReady
from penstock.extras import require
from penstock.interpreter import SAFE_PYTHON
from penstock.wording import nearest

Kind = Literal["scenario", "drill"]
_KINDS: tuple[Kind, ...] = ("scenario", "drill")
_ABOUT = {"scenario": "what happens", "drill": "what it shows"}
_ANSWER_S = 60.0


class Offer(BaseModel, frozen=True):
    """A scenario or drill that can be started."""

    kind: Kind = Field(description="scenario or drill.")
    name: str = Field(description="Its name.")
    about: str = Field(description="What happens, or what it shows.")
    options: list[str] = Field(description="What can be chosen when it is started.")
    by_hand: list[str] = Field(description="What can be scaled while it runs.")


class Catalog:
    """What can be started. Nothing of the lab is loaded into this process, for it brings Spark."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: list[Offer] = []

    def offers(self) -> list[Offer]:
        """Return everything that can be started; raise `EnvironmentNotReady` if the lab is not installed."""
        require("lab", "the lab")
        with self._lock:
            if not self._known:
                with ThreadPoolExecutor(len(_KINDS)) as threads:
                    self._known = [each for found in threads.map(_asked, _KINDS) for each in found]
            return self._known

    def find(self, kind: Kind, name: str) -> Offer:
        """Return one by its name."""
        named = {each.name: each for each in self.offers() if each.kind == kind}
        if name not in named:
            meant = nearest(name, list(named))
            fix = f"Did you mean '{meant}'?" if meant else f"There are: {', '.join(named)}"
            raise BadInput(f"there is no {kind} '{name}'", safe="Nothing was started", fix=fix)
        return named[name]


def _asked(kind: Kind) -> list[Offer]:
    command = [*SAFE_PYTHON, "-m", "penstock", kind, "list", "--json"]
    try:
        said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=_ANSWER_S)
        listed: list[dict[str, Any]] = orjson.loads(said.stdout)
    except (subprocess.SubprocessError, orjson.JSONDecodeError):
        raise EnvironmentNotReady(
            f"penstock {kind} list does not answer", safe="Nothing was started", fix=f"Run: penstock {kind} list"
        ) from None
    return [
        Offer(
            kind=kind,
            name=each[kind],
            about=each[_ABOUT[kind]],
            options=each.get("options", []),
            by_hand=each.get("by_hand", []),
        )
        for each in listed
    ]
