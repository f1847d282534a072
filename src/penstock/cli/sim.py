"""penstock sim: superhero combat, as a server, as players, or all in one."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from penstock.cli.output import Json, print_json, print_table, say
from penstock.cli.progress import bar
from penstock.cli.session import session
from penstock.config.complaints import in_words
from penstock.errors import BadInput

if TYPE_CHECKING:
    from pydantic import BaseModel

    from penstock.lab.simulator.sending import Destination
    from penstock.lab.simulator.simulation import SimulationResult

    Model = TypeVar("Model", bound=BaseModel)

app = typer.Typer(help="Superhero combat: games that make events, and the truth about them.", no_args_is_help=True)

To = Annotated[str, typer.Option("--to", help="Where events go: kafka://, redis://, redis-pubsub:// or amqp://.")]
Topic = Annotated[str, typer.Option(help="Topic of the events; made with 4 partitions if Kafka has none.")]
ByModule = Annotated[bool, typer.Option("--by-module", help="A topic for each module: TOPIC.lobby and TOPIC.game.")]
Mistakes = Annotated[float, typer.Option(help="Share of turns in which a bot strikes the dead or does nothing.")]
Think = Annotated[float, typer.Option("--think-s", help="Seconds that a bot behind a socket thinks before it acts.")]
Seed = Annotated[int, typer.Option(help="The same seed is the same games.")]


@app.command()
def run(
    context: typer.Context,
    players: Annotated[int, typer.Option(help="Users who play, 2 at least.")] = 10,
    games: Annotated[int, typer.Option(help="Games of 2 to 6 of them.")] = 20,
    seed: Seed = 1,
    speed: Annotated[str, typer.Option(help="live: over sockets, events by logging; max: neither, for load.")] = "live",
    malformed: Annotated[float, typer.Option(help="Share of all records that are malformed, such as 0.01.")] = 0.0,
    mistakes: Mistakes = 0.01,
    think_s: Think = 0.0,
    truth: Annotated[
        Path | None, typer.Option(help="File for the final standings; superhero/truth.jsonl in the home if left out.")
    ] = None,
    by_module: ByModule = False,
    to: To = "kafka://",
    topic: Topic = "superhero.combat",
    as_json: Json = False,
) -> None:
    """Play all games in this process, send their events, write the truth, and end."""
    from penstock.lab.simulator.sending import simulate_to
    from penstock.lab.simulator.simulation import SimulationOptions

    if by_module and speed == "max":
        raise BadInput("--by-module goes by the logger of an event, and --speed max logs none: use --speed live")
    options = _checked(
        SimulationOptions,
        players=players,
        games=games,
        seed=seed,
        speed=speed,
        malformed=malformed,
        bots={"mistakes": mistakes, "think_s": think_s},
        truth=truth or session(context).settings.home / "superhero" / "truth.jsonl",
    )
    destination = _destination(context, to, topic, by_module=by_module)
    with bar("playing") as shown:
        done = simulate_to(options, destination, show=shown.update)
    if as_json:
        print_json(done)
    else:
        _show_events(done)
        say(f"{done.games:,} games of {done.players:,} players, seed {done.seed}: truth in {done.truth}")
        say(
            f"{done.sent:,} records accepted by {done.address} in topic '{done.topic}', {done.dropped} dropped,"
            f" {done.events_per_s:,} a second"
        )


def _show_events(done: "SimulationResult") -> None:
    rows: list[list[Any]] = [[message, count] for message, count in done.by_message.items()]
    print_table(["message", "events"], [*rows, ["malformed", done.malformed], ["in all", done.records]])


@app.command()
def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8765,
    lobby_timeout_s: Annotated[float, typer.Option(help="Seconds until a game that does not fill times out.")] = 30.0,
    turn_timeout_s: Annotated[
        float, typer.Option(help="Seconds until a player who does not act misses a turn.")
    ] = 10.0,
    state: Annotated[
        str, typer.Option(help="Where games are: memory, or redis://HOST:PORT/0 to share them with other servers.")
    ] = "memory",
    origin: Annotated[
        list[str] | None, typer.Option(help="Web page whose scripts may play, too; programs always may. Repeatable.")
    ] = None,
    most_games: Annotated[int, typer.Option(help="Games at a time; beyond, none is begun.")] = 10_000,
    most_logins: Annotated[
        int, typer.Option(help="Logins of one address; beyond, its oldest that plays nowhere is forgotten.")
    ] = 10_000,
    truth: Annotated[
        Path | None, typer.Option(help="File to add the final standings to; none are written if left out.")
    ] = None,
    share_port: Annotated[
        bool, typer.Option("--share-port", help="Other servers may listen on this port, too; takes games in Redis.")
    ] = False,
    by_module: ByModule = False,
    to: To = "kafka://",
    topic: Topic = "superhero.combat",
) -> None:
    """Serve games until Ctrl-C; then say what was played and sent."""
    import asyncio

    from penstock.lab.simulator.lobby import LobbyOptions
    from penstock.lab.simulator.server import ServerOptions
    from penstock.lab.simulator.service import IN_MEMORY, Service

    if share_port and state == IN_MEMORY:
        raise BadInput("--share-port takes games that all servers see: name --state redis://HOST:PORT/0")
    service = Service(
        _destination(context, to, topic, by_module=by_module),
        _checked(ServerOptions, host=host, port=port, shares_port=share_port, origins=tuple(origin or ())),
        _checked(
            LobbyOptions,
            lobby_timeout_s=lobby_timeout_s,
            turn_timeout_s=turn_timeout_s,
            most_games=most_games,
            most_logins=most_logins,
        ),
        state=state,
        truth=truth,
    )
    served = asyncio.run(service.run(ready=lambda address: say(f"serving games at {address}; stop with Ctrl-C")))
    print_table(["message", "events"], [[message, count] for message, count in served.by_message.items()])
    say(f"{served.sent:,} events accepted by {to}, {served.dropped} dropped")


@app.command("players")
def players_(
    count: Annotated[int, typer.Option(help="How many bots.")] = 10,
    games: Annotated[int, typer.Option(help="Games that they play, in all; with --open, each of them.")] = 20,
    server: Annotated[str, typer.Option(help="Address of the game server.")] = "ws://127.0.0.1:8765",
    seed: Seed = 1,
    first: Annotated[int, typer.Option(help="Number of the first bot, so that two crowds have other names.")] = 0,
    open_: Annotated[bool, typer.Option("--open", help="Join any open game, also with players of others.")] = False,
    forever: Annotated[
        bool, typer.Option("--forever", help="As --open, but one game after the other until Ctrl-C.")
    ] = False,
    mistakes: Mistakes = 0.01,
    think_s: Think = 0.0,
    as_json: Json = False,
) -> None:
    """Let bots play against a running server, and end when all games are over."""
    import asyncio

    from penstock.lab.simulator.plan import plan
    from penstock.lab.simulator.play import BotOptions, CrowdOptions, crowd, endless_crowd, open_crowd

    bots = _checked(BotOptions, mistakes=mistakes, think_s=think_s)
    options = _checked(CrowdOptions, count=count, games=games, first=first)
    numbers = range(options.first, options.first + options.count)
    if forever:
        asyncio.run(endless_crowd(server, numbers, bots, seed=seed))
    with bar("playing") as shown:
        playing = (
            open_crowd(server, numbers, games, bots, seed=seed, show=shown.update)
            if open_
            else crowd(server, list(plan(options.count, games, seed, first=options.first)), bots, show=shown.update)
        )
        outcomes = asyncio.run(playing)
    if as_json:
        print_json(dict(outcomes))
    else:
        print_table(["outcome", "seats"], [[outcome, outcomes[outcome]] for outcome in ("won", "lost", "timed out")])


def _destination(context: typer.Context, address: str, topic: str, *, by_module: bool = False) -> "Destination":
    from penstock.lab.simulator.sending import PROJECT_KAFKA, Destination

    connection = session(context).connection() if address == PROJECT_KAFKA else None
    return Destination(address, topic=topic, by_module=by_module, connection=connection)


def _checked(model: "Callable[..., Model]", **given: Any) -> "Model":
    """Make options, or raise an error of one line about those that cannot be used."""
    from pydantic import ValidationError

    try:
        return model(**given)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        option = str(problem["loc"][-1]).replace("_", "-")
        raise BadInput(f"--{option}: {in_words(problem)}, not {problem['input']}", safe="Nothing was started") from None
