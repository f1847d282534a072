"""penstock init: a commented project file."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import editor_schemas
from penstock.cli.output import Json, print_json, say
from penstock.errors import BadInput, Conflict


def init(
    folder: Annotated[Path, typer.Argument(help="Where to write penstock.yaml.")] = Path(),
    as_json: Json = False,
) -> None:
    """Write a commented penstock.yaml; an existing one is never overwritten."""
    from penstock.config import project
    from penstock.config.settings import HOME_NAME, require_trusted

    path = folder / project.FILE_NAME
    home = folder.resolve() / HOME_NAME
    if os.path.lexists(home):
        require_trusted(home, safe="Nothing was written")
    if path.exists():
        raise Conflict(
            f"{path} already exists", safe="It was not touched", fix="Start what it describes with: penstock up"
        )
    try:
        schema_file = editor_schemas.put(home, "penstock", folder)
        # Whatever the umask: a file that others may write to is not trusted when it is found.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"# yaml-language-server: $schema={schema_file}\n{project.TEMPLATE}")
        except OSError:
            path.unlink()  # half of it would be this folder's project
            raise
    except FileExistsError:
        raise Conflict(
            f"{path} already exists", safe="It was not touched", fix="Start what it describes with: penstock up"
        ) from None
    except NotADirectoryError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None
    there = f"cd {shlex.quote(str(folder))} && " if folder.resolve() != Path.cwd() else ""
    say(f"{path} written; next: {there}penstock up")
    if as_json:
        print_json({"path": str(path)})
