"""JSON Schemas for editors: written to the home folder, and named in the files that `new` and `init` write."""

import os
from importlib.resources import files
from pathlib import Path
from typing import Literal

from penstock.private import make_missing_private, write_private

_PACKAGES = {"pipeline": "penstock.pipeline", "penstock": "penstock.config"}


def put(home: Path, kind: Literal["pipeline", "penstock"], beside: Path = Path()) -> str:
    """Write the schema of this version, and return its path as a file in the folder `beside` names it."""
    content = files(_PACKAGES[kind]).joinpath(f"{kind}.schema.json").read_bytes()
    folder = home / "schemas"
    make_missing_private(folder)
    write_private(folder / f"{kind}.json", content)
    return os.path.relpath(folder / f"{kind}.json", beside.resolve())
