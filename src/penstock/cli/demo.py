"""penstock demo: the main job, end to end."""

import tempfile
from typing import Annotated

import typer

from penstock.cli.output import Json, print_json, print_rows, print_table, say
from penstock.cli.progress import bar
from penstock.cli.session import session

_NOT_RIGHT = 1


def demo(
    context: typer.Context,
    events: Annotated[int, typer.Option(min=1, max=10_000_000, help="How many events to send.")] = 100_000,
    as_json: Json = False,
) -> None:
    """Start a throwaway Kafka, send events, land them in a table with Spark, compare, and stop it again."""
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
        print_table(list(outcome.some[0]), [list(row.values()) for row in outcome.some], own_names=True)
        print_rows(outcome.reasons, as_json=False)
        say(
            f"sent      {outcome.sent:>9,} events, {outcome.produced_per_s:,} a second; {outcome.malformed:,} malformed"
        )
        say(f"landed    {outcome.landed:>9,} rows in the table, {outcome.landed_per_s:,} events a second in the end")
        say(f"dead      {outcome.dead:>9,} dead letters")
        left = outcome.sent - outcome.landed - outcome.dead
        say(f"sent = landed + dead, {left} lost, {outcome.landed - outcome.distinct} doubled, lag {outcome.lag}")
    if not outcome.is_right:
        say("error: what came out is not what went in")
        raise typer.Exit(_NOT_RIGHT)
