"""penstock scenario: superhero combat, or a day of lineage, in trouble, compared with the truth."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penstock.cli import completion
from penstock.cli.output import Json, print_json, print_rows, print_table, say
from penstock.cli.progress import workplace
from penstock.cli.session import session
from penstock.errors import BadInput

if TYPE_CHECKING:
    from penstock.lab.scenarios.midnight.midnight import MidnightOutcome
    from penstock.lab.scenarios.scenario import Outcome
    from penstock.lab.scenarios.verdict import Verdict

_NOT_RIGHT = 1
_LIST = "list"
_MIDNIGHT = "midnight"
_OF_GAMES = ("players", "games", "workers", "sink")
_OF_MIDNIGHT = ("events", "store", "workers")


def scenario(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Which scenario; `list` to see them.", autocompletion=completion.scenarios),
    ],
    sink: Annotated[
        Literal["delta", "json", "kafka", "postgres"] | None,
        typer.Option(
            help="Where events land, besides the Delta table that the other workers read.", show_default="delta"
        ),
    ] = None,
    players: Annotated[
        int | None, typer.Option(min=2, max=100_000, help="Users who play; the scenario's own number if left out.")
    ] = None,
    games: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Games; the scenario's own number if left out.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=4, help="How many land at once: tasks of one Spark; in `workers`, Spark's worker processes."
        ),
    ] = None,
    events: Annotated[
        int | None,
        typer.Option(min=200, max=150_000, help="midnight: lineage events of the day, about.", show_default="20000"),
    ] = None,
    store: Annotated[
        Literal["sqlite", "postgres"] | None,
        typer.Option(help="midnight: where lineage is kept.", show_default="sqlite"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides everything about the games, or the day.")] = 1,
    as_json: Json = False,
) -> None:
    """Run superhero combat, or a day of lineage, on a throwaway Kafka, break something, and compare with the truth."""
    from penstock.lab.scenarios.names import ABOUT

    if name == _LIST:
        if as_json:
            print_json([_listed(each, about) for each, about in ABOUT.items()])
        else:
            print_table(["scenario", "what happens"], [[each, about] for each, about in ABOUT.items()])
        return
    of_games = dict(zip(_OF_GAMES, (players, games, workers, sink), strict=True))
    of_midnight = dict(zip(_OF_MIDNIGHT, (events, store, workers), strict=True))
    here, elsewhere = (of_midnight, of_games) if name == _MIDNIGHT else (of_games, of_midnight)
    _refuse_others(name, {option: value for option, value in elsewhere.items() if option not in here})
    outcome: Verdict
    if name == _MIDNIGHT:
        outcome = midnight = _perform_midnight(context, of_midnight, seed=seed)
        show = partial(_print_midnight, midnight)
    else:
        outcome = games_played = _perform_games(context, name, of_games, seed=seed)
        show = partial(print_verdict, games_played)
    print_json(outcome) if as_json else show()
    if not outcome.is_right:
        raise typer.Exit(_NOT_RIGHT)


def _listed(name: str, about: str) -> dict[str, Any]:
    """Return a scenario for machines, with the options that it has."""
    from penstock.lab.scenarios.names import BY_HAND

    options = _OF_MIDNIGHT if name == _MIDNIGHT else _OF_GAMES
    by_hand = list(BY_HAND.get(name, ()))
    return {"scenario": name, "what happens": about, "options": [*options, "seed"], "by_hand": by_hand}


def _refuse_others(name: str, options: dict[str, Any]) -> None:
    """Refuse options that this scenario does not have."""
    given = [option for option, value in options.items() if value is not None]
    if given:
        about = "is about lineage" if name == _MIDNIGHT else "is about games"
        raise BadInput(f"--{given[0]} is not for the scenario '{name}', which {about}", safe="Nothing was started")


def _perform_games(context: typer.Context, name: str, options: dict[str, Any], *, seed: int) -> "Outcome":
    from penstock.lab.scenarios.catalog import find
    from penstock.lab.scenarios.scenario import run_scenario

    chosen = find(name)
    settings = session(context).settings
    with workplace(settings.home, "scenario") as (place, step):
        return run_scenario(
            chosen,
            place,
            settings.jars,
            step,
            players=options["players"],
            games=options["games"],
            seed=seed,
            sink=options["sink"] or "delta",
            workers=options["workers"],
        )


def _perform_midnight(context: typer.Context, options: dict[str, Any], *, seed: int) -> "MidnightOutcome":
    from penstock.extras import require

    require("lineage", "the scenario midnight")
    from penstock.lab.scenarios.midnight.midnight import EVENTS, run_midnight

    settings = session(context).settings
    with workplace(settings.home, "scenario") as (place, step):
        return run_midnight(
            place,
            settings.jars,
            step,
            events=options["events"] or EVENTS,
            seed=seed,
            store=options["store"] or "sqlite",
            workers=options["workers"],
        )


def _print_midnight(outcome: "MidnightOutcome") -> None:
    print_rows(outcome.ways, as_json=False)
    say("")
    print_rows(outcome.facts, as_json=False)
    say("")
    print_rows(outcome.accounts, as_json=False)
    say("")
    say(f"{outcome.events:,} events; {outcome.seconds:.0f} s")
    if outcome.is_right:
        say("no sender waited or was refused, the backlog drained, and the store is what the events say")
    _print_differences(outcome)


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
    _print_differences(outcome)


def _print_differences(outcome: "Verdict") -> None:
    for each in outcome.differences:
        say(f"error: {each.where}: {each.what}: {each.count:,}, such as {'; '.join(each.examples)}")
