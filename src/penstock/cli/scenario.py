"""penstock scenario: superhero combat in trouble, compared with the truth."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from penstock.cli import completion
from penstock.cli.output import Json, print_json, print_rows, print_table, say
from penstock.cli.progress import workplace
from penstock.cli.session import session

if TYPE_CHECKING:
    from penstock.lab.scenarios.scenario import Outcome

_NOT_RIGHT = 1
_LIST = "list"


def scenario(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Which scenario; `list` to see them.", autocompletion=completion.scenarios),
    ],
    sink: Annotated[
        Literal["delta", "json", "kafka", "postgres"],
        typer.Option(help="Where events land, besides the Delta table that the other workers read."),
    ] = "delta",
    players: Annotated[
        int | None, typer.Option(min=2, max=100_000, help="Users who play; the scenario's own number if left out.")
    ] = None,
    games: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Games; the scenario's own number if left out.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides everything about the games.")] = 1,
    as_json: Json = False,
) -> None:
    """Play superhero combat into a throwaway Kafka, land it while things go wrong, and compare with the truth."""
    from penstock.lab.scenarios.catalog import SCENARIOS, find
    from penstock.lab.scenarios.scenario import run_scenario

    if name == _LIST:
        rows = [{"scenario": each.name, "what happens": each.about} for each in SCENARIOS.values()]
        if as_json:
            print_json(rows)
        else:
            print_table(list(rows[0]), [list(row.values()) for row in rows])
        return
    chosen = find(name)
    settings = session(context).settings
    with workplace(settings.home, "scenario") as (place, step):
        outcome = run_scenario(chosen, place, settings.jars, step, players=players, games=games, seed=seed, sink=sink)
    if as_json:
        print_json(outcome)
    else:
        print_verdict(outcome)
    if not outcome.is_right:
        raise typer.Exit(_NOT_RIGHT)


def print_verdict(outcome: "Outcome") -> None:
    """Print what was sent and where it landed, and what differs."""
    print_rows(outcome.sinks, as_json=False)
    if outcome.facts:
        say("")
        print_rows(outcome.facts, as_json=False)
    if outcome.reasons:
        say("")
        print_table(
            ["dead letters", "stage", "error"], [[each.letters, each.stage, each.error] for each in outcome.reasons]
        )
    say("")
    played = f"{outcome.games:,} games, {outcome.events:,} events, {outcome.malformed:,} malformed records"
    say(f"{played}; lag {outcome.lag}; {outcome.seconds:.0f} s")
    if outcome.is_right:
        say(f"sent = landed + dead in every sink, and all {outcome.truth:,} rows of the podium are the truth")
        return
    for each in outcome.differences:
        say(f"error: {each.where}: {each.what}: {each.count:,}, such as {'; '.join(each.examples)}")
