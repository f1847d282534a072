"""penstock examples: what comes with Penstock to try and to copy."""

import ast
import shutil
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import completion
from penstock.cli.output import Json, print_json, print_table, say
from penstock.errors import Conflict, EnvironmentNotReady, NotFound

app = typer.Typer(help="Examples to look at, copy and change.", no_args_is_help=True)

_PACKAGE = Path(__file__).parents[1]


def folder() -> Path:
    """Return where the examples are: in the package, or beside it in a clone."""
    places = (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples")
    found = next((each for each in places if each.is_dir()), None)
    if found is None:
        raise EnvironmentNotReady(
            f"the examples are neither in {places[0]} nor in {places[1]}", fix="Install Penstock again"
        )
    return found


def names() -> dict[str, Path]:
    """Return the examples by name: a folder, or a single program."""
    there = [each for each in folder().iterdir() if each.is_dir() or each.suffix == ".py"]
    return {each.stem: each for each in sorted(there) if not each.name.startswith(("_", "."))}


def _about(example: Path) -> str:
    """Take the first line of what an example says about itself."""
    texts = [example] if example.is_file() else [*sorted(example.glob("*.py")), *sorted(example.glob("*.yaml"))]
    for path in texts:
        content = path.read_text(encoding="utf-8")
        said = ast.get_docstring(ast.parse(content)) if path.suffix == ".py" else content.lstrip("# ")
        if said:
            return said.splitlines()[0].strip()
    return ""


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the examples, with a line about each."""
    found = [{"example": name, "about": _about(path)} for name, path in names().items()]
    print_json(found) if as_json else print_table(["example", "about"], [list(each.values()) for each in found])


@app.command()
def copy(
    name: Annotated[str, typer.Argument(help="Which example.", autocompletion=completion.examples)],
    to: Annotated[Path, typer.Argument(help="Folder to copy into; the working folder if left out.")] = Path(),
) -> None:
    """Copy an example, to be run and changed; never over a file that is there."""
    known = names()
    if name not in known:
        raise NotFound(f"there is no example '{name}'", fix=f"There are: {', '.join(known)}")
    target = to / known[name].name
    if target.exists():
        raise Conflict(f"{target} is there already", safe="It was not touched")
    if known[name].is_dir():
        shutil.copytree(known[name], target, ignore=shutil.ignore_patterns("__pycache__", ".*", "tables"))
    else:
        to.mkdir(parents=True, exist_ok=True)
        shutil.copy(known[name], target)
    say(f"{target} is yours")
