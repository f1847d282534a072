"""Write and check pipeline files."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import Json, print_json, say
from penstock.cli.pipeline.common import File
from penstock.errors import BadInput, Conflict


def new(
    name: Annotated[str, typer.Argument(help="Name of the pipeline: lower-case letters, digits, dashes.")],
    topic: Annotated[str, typer.Option(help="Topic to read.")] = "events",
) -> None:
    """Write a commented pipeline file that runs."""
    from penstock.pipeline.spec import NAME
    from penstock.pipeline.template import template

    if NAME.fullmatch(name) is None:
        raise BadInput("a pipeline's name has lower-case letters, digits and dashes, at most 63")
    path = Path(f"{name}.yaml")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(template(name, topic))
    except FileExistsError:
        raise Conflict(f"{path} is there already", safe="It was not touched") from None
    say(f"{path} written. Next: penstock pipeline check {path}")


def check(file: File, as_json: Json = False) -> None:
    """Look for mistakes without starting Spark; unknown columns are warnings."""
    from penstock.pipeline.load import load_with_warnings

    spec, warnings = load_with_warnings(file)
    if as_json:
        print_json({"pipeline": spec.name, "warnings": warnings})
        return
    for warning in warnings:
        say(f"warning: {warning}")
    say(f"pipeline '{spec.name}' can run")
