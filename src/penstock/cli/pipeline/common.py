"""What the pipeline commands have in common."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import completion
from penstock.cli.output import print_table, say
from penstock.wording import plural

if TYPE_CHECKING:
    from penstock.operate.status import Status
    from penstock.pipeline.spec import PipelineSpec

File = Annotated[Path, typer.Argument(help="The pipeline file, YAML or Python.")]
Which = Annotated[
    str, typer.Argument(help="The pipeline's name, or its file.", autocompletion=completion.pipelines_and_files)
]
Name = Annotated[str, typer.Argument(help="The pipeline's name.", autocompletion=completion.pipelines)]
Stream = Annotated[bool, typer.Option("--stream", help="Go on when it has caught up, also if its speed is scheduled.")]
Master = Annotated[str, typer.Option(help="Spark's master, such as local[*,4] or spark://host:7077.")]


def load_and_warn(file: Path, *, once: bool = False, stream: bool = False, master: str = "local") -> "PipelineSpec":
    """Read a pipeline file, and warn of what looks like a mistake; a missing function is refused."""
    from penstock.pipeline.load import load_with_warnings
    from penstock.private import distrust

    # The workers of a cluster may have packages that this machine lacks. Where others may write, `check` warns.
    import_code = master.startswith("local") and distrust(file.absolute().parent) is None
    spec, warnings = load_with_warnings(file, once=once, stream=stream, import_code=import_code)
    for warning in warnings:
        say(f"warning: {warning}")
    return spec


def print_account(status: "Status") -> None:
    """Show what each sink got, and the rows that broke each expectation."""
    counts = f"{plural(status.events, 'event')}, {plural(status.dead, 'dead letter')}"
    say(f"pipeline '{status.pipeline}' {status.state}: {counts}")
    rows = [[name, each.read, each.written, each.dead, each.dropped] for name, each in status.sinks.items()]
    if rows:
        print_table(["sink", "read", "written", "dead", "dropped"], rows)
    if status.rules:
        print_table(["expectation", "broken"], [[name, count] for name, count in status.rules.items()])
