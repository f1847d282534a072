"""penstock examples: programs and pipelines to try and to copy."""

import ast
import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import completion
from penstock.cli.output import Json, print_json, print_table, say
from penstock.errors import Conflict, EnvironmentNotReady, NotFound
from penstock.example_files import examples_folder
from penstock.wording import nearest

app = typer.Typer(help="Examples to look at, copy and change.", no_args_is_help=True)


def names() -> dict[str, Path]:
    """Return the examples by name: a folder, or a single program."""
    there = [each for each in examples_folder().iterdir() if each.is_dir() or each.suffix == ".py"]
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
    """Copy an example, to run and to change; an existing file is never overwritten."""
    known = names()
    if name not in known:
        close = nearest(name, known)
        meant = f"Did you mean '{close}'? " if close else ""
        raise NotFound(f"there is no example '{name}'", fix=f"{meant}There are {', '.join(known)}")
    target = to / known[name].name
    if os.path.lexists(target):
        raise Conflict(
            f"{target} already exists",
            safe="It was not touched",
            fix=f"Copy into another folder: penstock examples copy {name} FOLDER",
        )
    try:
        if known[name].is_dir():
            left_out = shutil.ignore_patterns("__pycache__", ".*", "tables")
            shutil.copytree(known[name], target, ignore=left_out, copy_function=_copy)
        else:
            to.mkdir(parents=True, exist_ok=True)
            _copy(known[name], target)
    except EnvironmentNotReady:
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
        raise
    say(f"copied to {target}")


def _copy(source: str | Path, target: str | Path) -> None:
    """Copy a file; what the disk does not take is told once and not by each file."""
    try:
        shutil.copy2(source, target)
    except OSError as error:
        raise EnvironmentNotReady(
            f"{target} cannot be written: {error.strerror}",
            safe="What was copied has been removed",
            fix="Make room, or copy into another folder",
        ) from None
