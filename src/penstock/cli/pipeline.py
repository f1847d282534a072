"""penstock pipeline: from Kafka to tables."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import say
from penstock.cli.session import session

app = typer.Typer(help="Pipelines: from Kafka to tables, exactly once.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="The pipeline file, YAML or Python.")]


@app.command()
def run(context: typer.Context, file: File) -> None:
    """Run a pipeline here, until it has caught up (speed scheduled) or Ctrl-C (speed stream)."""
    from penstock.engine.driver import run as drive
    from penstock.pipeline.load import load

    spec = load(file)
    drive(spec, session(context).settings, file.resolve().parent, tell=lambda p: say(str(p)))
