"""Where the pipelines of the superhero example are: in the package of an installed Penstock, else in its repository."""

from pathlib import Path

import penstock
from penstock.errors import EnvironmentNotReady

_PACKAGE = Path(penstock.__file__).parent


def worker_folder() -> Path:
    """Return the folder that holds `combat.yaml` and its fellows."""
    folders = (_PACKAGE / "examples" / "superhero", _PACKAGE.parents[1] / "examples" / "superhero")
    for folder in folders:
        if (folder / "combat.yaml").is_file():
            return folder
    raise EnvironmentNotReady(
        f"the superhero example is neither in {folders[0]} nor in {folders[1]}", fix="Install Penstock again"
    )
