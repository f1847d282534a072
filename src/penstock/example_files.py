"""Where the examples are: in the package of an installed Penstock, beside its source in a clone."""

from pathlib import Path

from penstock.errors import EnvironmentNotReady

_PACKAGE = Path(__file__).parent


def examples_folder() -> Path:
    """Return the folder of the examples; raise `EnvironmentNotReady` if there is none."""
    places = (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples")
    for place in places:
        if place.is_dir():
            return place
    raise EnvironmentNotReady(
        f"the examples are neither in {places[0]} nor in {places[1]}", fix="Install Penstock again"
    )


def example_pipelines() -> dict[str, Path]:
    """Return the examples' pipeline files that need nothing beside them, by their paths in the folder of examples."""
    found: dict[str, Path] = {}
    for folder in sorted(each for each in examples_folder().iterdir() if each.is_dir()):
        files = sorted(folder.glob("*.yaml"))
        if not list(folder.glob("*.py")):
            found |= {folder.name if len(files) == 1 else f"{folder.name}/{each.stem}": each for each in files}
    return found
