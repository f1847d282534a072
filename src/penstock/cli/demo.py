"""penstock demo: the main job, end to end."""

from typing import Annotated

import typer

from penstock.cli.output import Json, print_json, print_rows, say
from penstock.cli.progress import workplace
from penstock.cli.scenario import print_verdict
from penstock.cli.session import session

_NOT_RIGHT = 1


def demo(
    context: typer.Context,
    players: Annotated[int, typer.Option(min=2, max=1000, help="Users who play.")] = 10,
    games: Annotated[int, typer.Option(min=1, max=10_000, help="Games of 2 to 6 of them.")] = 20,
    seed: Annotated[int, typer.Option(help="Decides everything about the games.")] = 1,
    as_json: Json = False,
) -> None:
    """Play superhero combat into a throwaway Kafka, run every worker on Spark, compare with the truth, and stop."""
    from penstock.lab.demo import MALFORMED, run
    from penstock.lab.scenarios.play import Games

    settings = session(context).settings
    wanted = Games(players=players, games=games, seed=seed, malformed=MALFORMED)
    with workplace(settings.home, "demo") as (place, step):
        outcome = run(place, settings.jars, wanted, step)
    if as_json:
        print_json(outcome)
    else:
        for rows in (outcome.podium, outcome.tables, outcome.delays):
            print_rows(rows, as_json=False)
            say("")
        say(f"{outcome.played_per_s:,} events a second played, {outcome.landed_per_s:,} a second landed")
        print_verdict(outcome.compared)
    if not outcome.compared.is_right:
        raise typer.Exit(_NOT_RIGHT)
