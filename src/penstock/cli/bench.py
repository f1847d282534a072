"""penstock bench: measurements beside a peer, as ratios."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.output import Json, print_json, print_rows, say
from penstock.cli.progress import bar
from penstock.cli.session import session

app = typer.Typer(help="Measure beside a peer, in one run.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Absolute figures differ from machine to machine; the ratios are what counts."""


@app.command()
def broker(
    context: typer.Context,
    events: Annotated[int, typer.Option(min=10_000, max=50_000_000, help="Events a round.")] = 1_000_000,
    size: Annotated[int, typer.Option(min=1, max=1000, help="Bytes a value.")] = 200,
    rounds: Annotated[int, typer.Option(min=1, max=20, help="Measured rounds, after one to warm up.")] = 3,
    output: Annotated[Path | None, typer.Option(help="Also write the result here, as JSON.")] = None,
    as_json: Json = False,
) -> None:
    """Our producer and consumer beside Kafka's own Java tools."""
    from penstock.bench.broker import run

    settings = session(context).settings
    settings.home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=settings.home) as place, bar("bench") as shown:

        def step(what: str, done: int, total: int) -> None:
            shown.describe(what)
            if total:
                shown.update(done, total)

        lines = run(
            Path(place),
            settings.jars,
            events=events - events % 1000,
            size_bytes=size,
            rounds=rounds,
            step=step,
        )
    if output is not None:
        import orjson

        output.write_bytes(orjson.dumps([line.model_dump() for line in lines], option=orjson.OPT_INDENT_2) + b"\n")
    if as_json:
        print_json(lines)
    else:
        print_rows(lines, as_json=False)
        say(
            f"{events:,} events of {size} bytes, median of {rounds} rounds, ratio beside the Java tool of the same role"
        )
