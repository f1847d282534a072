"""penstock demo: the main job, end to end."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.output import Json, print_json, print_rows, print_table, say
from penstock.cli.progress import workplace
from penstock.cli.scenario import print_verdict
from penstock.cli.session import session

if TYPE_CHECKING:
    from penstock.lineage.shapes.lineage import Lineage

_NOT_RIGHT = 1
_NEXT = {
    "penstock scenario kill-worker": "the driver is killed with -9 again and again; podium = truth all the same",
    "penstock drill acks": "what acks 0, 1 and all lose when a leader dies",
    "penstock up": "a Kafka of your own; README.md continues from there to your first pipeline",
}


def _print_lineage(lineage: "Lineage") -> None:
    """Show where the podium comes from: its own dataset is the one that nothing reads."""
    from penstock.cli.lineage.tree import print_tree
    from penstock.lineage.graph import graph_of

    graph = graph_of(lineage, "JOB")
    for podium in {edge.target for edge in graph.edges} - {edge.source for edge in graph.edges}:
        print_tree(graph, podium, "where the podium comes from", ("from",))


def demo(
    context: typer.Context,
    players: Annotated[int, typer.Option(min=2, max=1000, help="Users who play.")] = 10,
    games: Annotated[int, typer.Option(min=1, max=10_000, help="Games of 2 to 6 of them.")] = 20,
    seed: Annotated[int, typer.Option(help="Decides everything about the games.")] = 1,
    as_json: Json = False,
) -> None:
    """Play superhero combat into a throwaway Kafka while pipelines land it, compare with the truth, and stop."""
    from penstock.extras import require
    from penstock.lab.demo import MALFORMED, THINK_S, run
    from penstock.lab.scenarios.play import Games

    require("lineage", "penstock demo")
    settings = session(context).settings
    wanted = Games(players=players, games=games, seed=seed, malformed=MALFORMED, think_s=THINK_S)
    with workplace(settings.home, "demo") as (place, step):
        outcome = run(place, settings.jars, wanted, step)
    if as_json:
        print_json(outcome)
    else:
        for rows in (outcome.podium, outcome.tables, outcome.delays):
            print_rows(rows, as_json=False)
            say("")
        live, burst = outcome.live, outcome.burst
        say(
            f"live: {live.records:,} records in {live.seconds:.0f} s of play,"
            f" landed meanwhile in {live.batches:,} batches"
        )
        say(
            f"burst: {burst.records:,} records sent in {burst.sent_s:.1f} s and landed in {burst.landed_s:.1f} s,"
            f" {burst.landed_per_s:,} a second"
        )
        say("")
        print_verdict(outcome.compared)
        say("")
        _print_lineage(outcome.lineage)
        say("")
        print_table(["try next", "what happens"], [[command, about] for command, about in _NEXT.items()])
    if not outcome.compared.is_right:
        raise typer.Exit(_NOT_RIGHT)
