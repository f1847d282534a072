"""Change how fast a pipeline reads, while it runs."""

from typing import Annotated

import typer

from penstock.cli.output import Json, print_json, say
from penstock.cli.pipeline.common import Name
from penstock.cli.session import session
from penstock.config.complaints import in_words
from penstock.errors import BadInput


def rate(
    context: typer.Context,
    name: Name,
    events: Annotated[int | None, typer.Option(help="Maximum number of events.")] = None,
    per: Annotated[str, typer.Option(help="Within this time, such as 1s.")] = "1s",
    off: Annotated[bool, typer.Option("--off", help="No limit at all, whatever the file says.")] = False,
    as_file: Annotated[bool, typer.Option("--as-file", help="Let the pipeline file decide again.")] = False,
    as_json: Json = False,
) -> None:
    """Change how fast a pipeline may read, also while it runs; without an option, show the limit that was set last."""
    from penstock.driver import rate as limits
    from penstock.operate.known_pipelines import known_paths
    from penstock.pipeline.rate import Rate
    from penstock.quantities import parse_duration_ms

    if sum([events is not None, off, as_file]) > 1:
        raise BadInput("--events, --off and --as-file contradict each other: give one")
    folder = known_paths(session(context).settings, name).folder
    if as_file:
        limits.forget(folder)
    elif off:
        limits.Override(rate=None).save(folder)
    elif events is not None:
        try:
            limits.Override(rate=Rate(events=events, per=parse_duration_ms(per))).save(folder)
        except ValueError as error:
            raise BadInput(f"--events {events} --per {per} is not a rate: {_reason(error)}") from None
    said = limits.Override.load(folder)
    if as_json:
        print_json({"pipeline": name, "override": said is not None, "rate": said.rate if said else None})
    elif said is None:
        say(f"pipeline '{name}': the pipeline file decides")
    elif said.rate is None:
        say(f"pipeline '{name}': no limit")
    else:
        say(f"pipeline '{name}': {said.rate.events:,} events per {said.rate.per:,} ms")


def _reason(error: ValueError) -> str:
    from pydantic import ValidationError

    return in_words(error.errors()[0]) if isinstance(error, ValidationError) else str(error)
