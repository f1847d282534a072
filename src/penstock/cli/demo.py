"""penstock demo: the main job, end to end, in under a minute."""

import tempfile
from typing import Annotated

import typer

from penstock.cli.output import Json, print_json, print_rows, say
from penstock.cli.progress import bar
from penstock.cli.session import session

_NOT_RIGHT = 1


def demo(
    context: typer.Context,
    events: Annotated[int, typer.Option(min=1, max=10_000_000, help="How many events to send.")] = 100_000,
    as_json: Json = False,
) -> None:
    """Start a throwaway Kafka, send events, process them in a group, compare, and stop it again."""
    from pathlib import Path

    from penstock.demo import run

    home = session(context).settings.home
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="demo-", dir=home) as place, bar("demo") as shown:
        doing = ""

        def step(what: str, done: int, total: int) -> None:
            nonlocal doing
            if what != doing:
                doing = what
                shown.describe(what)
            if total:
                shown.update(done, total)

        outcome = run(Path(place), session(context).settings.jars, events, step)
    if as_json:
        print_json(outcome)
    else:
        print_rows(outcome.partitions, as_json=False)
        lost, doubled = outcome.sent - outcome.distinct, outcome.processed - outcome.distinct
        say(f"sent      {outcome.sent:>9,} events, {outcome.produced_per_s:,} a second")
        say(
            f"processed {outcome.processed:>9,} events, {outcome.consumed_per_s:,} a second, committed after processing"
        )
        say(f"different {outcome.distinct:>9,} events: {lost} lost, {doubled} doubled")
        say(f"lag       {outcome.lag:>9,}")
    if not outcome.is_right:
        say("error: what came out is not what went in")
        raise typer.Exit(_NOT_RIGHT)
