"""penstock bench: measurements beside a peer, as ratios."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from penstock.cli.output import Json, print_json, print_rows, print_table, say
from penstock.cli.progress import workplace
from penstock.cli.session import session
from penstock.errors import BadInput
from penstock.extras import require

if TYPE_CHECKING:
    from pydantic import BaseModel


def _writable(path: Path | None) -> Path | None:
    """Check before the measurement, which would be wasted if its figures could not be written."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise BadInput(f"{path} is not a file in a folder that exists")
    return path


def _drawable(path: Path | None) -> Path | None:
    from penstock.lab.bench.drawing import require_drawable

    if path is not None:
        require_drawable(path)
    return _writable(path)


Rounds = Annotated[int, typer.Option(min=1, max=20, help="Measured rounds, after one to warm up.")]
Output = Annotated[Path | None, typer.Option(callback=_writable, help="Also write the result here, as JSON.")]
Plot = Annotated[Path | None, typer.Option(callback=_drawable, help="Also draw it here, as .svg or .png.")]

app = typer.Typer(help="Measure beside a peer, in one run.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Absolute figures differ from machine to machine; the ratios are what counts."""


@app.command()
def broker(
    context: typer.Context,
    events: Annotated[int, typer.Option(min=10_000, max=50_000_000, help="Events a round.")] = 1_000_000,
    size: Annotated[int, typer.Option(min=1, max=1000, help="Bytes a value.")] = 200,
    rounds: Rounds = 3,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Our producer and consumer beside Kafka's own Java tools."""
    from penstock.lab.bench.broker import run

    with workplace(session(context).settings.home, "bench") as (place, step):
        lines = run(
            place,
            session(context).settings.jars,
            events=events - events % 1000,
            size_bytes=size,
            rounds=rounds,
            step=step,
        )
    _print_results(lines, output, as_json=as_json)
    say(f"{events:,} events of {size} bytes, median of {rounds} rounds, ratio beside the Java tool of the same role")


@app.command()
def pipeline(
    context: typer.Context,
    events: Annotated[int, typer.Option(min=10_000, max=50_000_000, help="Events in the topic.")] = 2_000_000,
    rounds: Rounds = 3,
    max_events: Annotated[int, typer.Option(min=1000, help="Events a batch of ours.")] = 500_000,
    peers: Annotated[bool, typer.Option("--peers", help="Also others, in an environment of their own.")] = False,
    schemas: Annotated[
        bool, typer.Option("--schemas", help="Also Avro and Protobuf by a registry, and Spark's own from_avro.")
    ] = False,
    output: Output = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Our pipelines, exactly once into Delta with dead letters, beside plain PySpark."""
    from penstock.lab.bench.peer_runs import Peers
    from penstock.lab.bench.pipeline import run

    if schemas:
        require("schemas", "Avro and Protobuf")
        require("services", "a registry")
    with workplace(session(context).settings.home, "bench") as (place, step):
        settings = session(context).settings
        others = Peers(settings.cache, lambda line: step(line, 0, 0)) if peers else None
        lines = run(
            place,
            settings.jars,
            events=events,
            rounds=rounds,
            max_events=max_events,
            peers=others,
            schemas=schemas,
            step=step,
        )
    _print_results(lines, output, as_json=as_json)
    _draw({line.contender: line.events_per_s for line in lines}, "events a second", plot)
    say(f"{events:,} events of about 230 bytes on 2 cores, median of {rounds} rounds, ratio beside plain PySpark")


@app.command()
def start(
    context: typer.Context,
    events: Annotated[int, typer.Option(min=1, max=1_000_000, help="Events in the topic.")] = 400,
    rounds: Rounds = 3,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Measure a cold run as cron starts it, beside a plain PySpark script; and one with nothing to read."""
    from penstock.lab.bench.start import run

    with workplace(session(context).settings.home, "bench") as (place, step):
        lines = run(place, session(context).settings.jars, events=events, rounds=rounds, step=step)
    _print_results(lines, output, as_json=as_json)
    say(f"{events:,} events of about 230 bytes into Delta, whole processes, median of {rounds} rounds")


@app.command()
def growth(
    context: typer.Context,
    events: Annotated[
        list[int], typer.Option(min=10_000, max=50_000_000, help="Events in the topic; can be repeated.")
    ] = [1_000_000, 5_000_000, 20_000_000],  # noqa: B006 - Typer copies it
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Measure what an event costs in a small and in a large backlog, and the driver's memory over each."""
    from penstock.lab.bench.growth import run

    with workplace(session(context).settings.home, "bench") as (place, step):
        lines = run(place, session(context).settings.jars, sizes=sorted(events), step=step)
    _print_results(lines, output, as_json=as_json)
    say("events of about 230 bytes on 2 cores, exactly once into Delta; ratio beside the smallest topic, 1 is linear")


@app.command()
def batching(
    context: typer.Context,
    events: Annotated[int, typer.Option(min=1000, max=1_000_000, help="Events a round.")] = 2000,
    rounds: Rounds = 3,
    output: Output = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Write the same events to PostgreSQL one by one and in batches, on a throwaway server of its own."""
    from penstock.lab.bench.batching import run

    with workplace(session(context).settings.home, "bench") as (_, step):
        lines = run(events=events, rounds=rounds, step=step)
    _print_results(lines, output, as_json=as_json)
    _draw({line.contender: line.events_per_s for line in lines}, "events a second", plot)
    say(f"{events:,} events, median of {rounds} rounds, ratio beside one INSERT and one commit an event")


@app.command()
def lineage(
    context: typer.Context,
    events: Annotated[int, typer.Option(min=1000, max=5_000_000, help="Events in the topic.")] = 20_000,
    rounds: Rounds = 3,
    peers: Annotated[bool, typer.Option("--peers", help="Also Data.Rentgen, in an environment of its own.")] = False,
    output: Output = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Lineage events through Kafka into PostgreSQL, beside one event at a time; and the delay of a single one."""
    require("lineage", "penstock bench lineage")
    from penstock.lab.bench.lineage import run
    from penstock.lab.bench.lineage_peer import DataRentgen, find_python

    settings, python = session(context).settings, find_python() if peers else None
    if peers and python is None:
        say("Data.Rentgen is skipped: it needs Python 3.12 or newer, and there is none here")
    with workplace(settings.home, "bench") as (place, step):
        peer = DataRentgen(settings.cache, python, lambda line: step(line, 0, 0)) if python else None
        lines, mean_bytes = run(place, settings.jars, events=events, rounds=rounds, peer=peer, step=step)
    _print_results(lines, output, as_json=as_json)
    _draw({line.contender: line.events_per_s for line in lines}, "events a second", plot)
    say(
        f"{events:,} events of {mean_bytes:,} bytes on 2 cores, median of {rounds} rounds, into a PostgreSQL that syncs"
    )


@app.command()
def realtime(
    context: typer.Context,
    rate: Annotated[int, typer.Option(min=1, max=100_000, help="Events a second.")] = 1000,
    seconds: Annotated[int, typer.Option(min=5, max=3600, help="How long, after 15 s to warm up.")] = 30,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Measure how long events take from Kafka to Kafka, in real time and in plain micro-batches."""
    from penstock.lab.bench.realtime import run

    with workplace(session(context).settings.home, "bench") as (place, step):
        lines = run(place, session(context).settings.jars, rate=rate, seconds=seconds, step=step)
    _print_results(lines, output, as_json=as_json)
    say(f"{rate:,} events a second for {seconds} s; from the moment of sending to the moment of reading the result")


@app.command()
def latency(
    context: typer.Context,
    rate: Annotated[int, typer.Option(min=1, max=10_000, help="Events a second.")] = 100,
    seconds: Annotated[int, typer.Option(min=5, max=3600, help="How long, after 15 s to warm up.")] = 30,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Measure how long events take with `speed: stream`, exactly once into Kafka and Delta, and where the time goes."""
    from penstock.lab.bench.latency import run

    with workplace(session(context).settings.home, "bench") as (place, step):
        found = run(place, session(context).settings.jars, rate=rate, seconds=seconds, step=step)
    _write([found], output)
    if as_json:
        print_json(found)
    else:
        print_rows([found.delay], as_json=False)
        print_rows(found.shares, as_json=False)
    say(f"{rate:,} events a second for {seconds} s, {found.batches:,} batches; shares are those of a batch")


@app.command("logging")
def logging_cost(
    context: typer.Context,
    records: Annotated[int, typer.Option(min=1000, max=10_000_000, help="Records a contender.")] = 50_000,
    rate: Annotated[int, typer.Option(min=100, max=1_000_000, help="Records a second.")] = 10_000,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Measure what a log record costs the program: our handler with Kafka behind it, beside the stdlib's."""
    from penstock.lab.bench.logging_cost import run

    with workplace(session(context).settings.home, "bench") as (place, step):
        lines = run(place, session(context).settings.jars, records=records, rate=rate, step=step)
    _print_results(lines, output, as_json=as_json)
    say(f"{records:,} records with five extras, {rate:,} a second; microseconds in the thread that logs")


@app.command("lineage-growth")
def lineage_growth(
    context: typer.Context,
    events: Annotated[int, typer.Option(min=1000, max=20_000_000, help="Events in the topic.")] = 1_000_000,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Lineage events into PostgreSQL by the hundred thousand: speed and memory of each."""
    from penstock import lab  # noqa: F401 - which asks for its own extra first

    require("lineage", "penstock bench lineage-growth")
    from penstock.lab.bench.lineage_growth import run

    settings = session(context).settings
    with workplace(settings.home, "bench") as (place, step):
        intervals = run(place, settings.jars, events=events, step=step)
    _print_results(intervals, output, as_json=as_json)
    say(f"{events:,} events in one pass, in batches of 50,000; memory at most within each interval")


@app.command("lineage-sending")
def lineage_sending(
    context: typer.Context,
    events: Annotated[int, typer.Option(min=200, max=1_000_000, help="Events, one at a time, for each way.")] = 2_000,
    spike: Annotated[
        int, typer.Option(min=1_000, max=100_000_000, help="Events of the spike at the gateway, in batches.")
    ] = 1_000_000,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """Measure what an OpenLineage event costs its sender, by Kafka and by HTTP, and let a spike into the gateway."""
    from penstock.lab.bench.lineage_sending import run

    require("lineage", "the gateway")
    with workplace(session(context).settings.home, "bench") as (place, step):
        jars = session(context).settings.jars
        lines, burst = run(place, jars, events=events, spike_events=spike, step=step)
    _write([*lines, burst], output)
    if as_json:
        print_json({"sending": lines, "spike": burst})
        return
    print_rows(lines, as_json=False)
    say("")
    print_rows([burst], as_json=False)


@app.command()
def brokers(
    context: typer.Context,
    events: Annotated[int, typer.Option(min=1000, max=5_000_000, help="Events a round.")] = 100_000,
    rate: Annotated[int, typer.Option(min=10, max=10_000, help="Events a second while delays are measured.")] = 1000,
    seconds: Annotated[int, typer.Option(min=1, max=120, help="How long, in each round, after 1 s to warm up.")] = 10,
    rounds: Rounds = 3,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only kafka, redis-streams, redis-pubsub or rabbitmq; can be repeated."),
    ] = None,
    output: Output = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Kafka, Redis Streams, Redis Pub/Sub and RabbitMQ with the same events: speed, losses, replay, disk."""
    from penstock.lab.bench.brokers.contenders import named
    from penstock.lab.bench.brokers.report import panels, table
    from penstock.lab.bench.brokers.run import run
    from penstock.lab.bench.drawing import bars, save_panels

    names = named(only or [])
    with workplace(session(context).settings.home, "bench") as (place, step):
        result = run(
            place,
            session(context).settings.jars,
            names=names,
            events=events,
            rate=rate,
            seconds=seconds,
            rounds=rounds,
            step=step,
        )
    _write(result.lines, output)
    if as_json:
        print_json(result.lines)
    else:
        print_table(*table(result.lines))
    drawn = panels(result.lines, rate)
    for panel in drawn:
        for text in ("", panel.title, *bars(panel.values, panel.unit)):
            say(text)
    if plot is not None:
        save_panels(drawn, plot)
    say("")
    for line in result.lines:
        say(f"{line.broker} {line.version}: {line.settings}")
        if line.lost_at_full_speed:
            say(f"{line.broker} lost {line.lost_at_full_speed:,} events at full speed")
    for name, reason in result.missing.items():
        say(f"left out: {name}: {reason}")
    say(
        f"{events:,} events of {result.mean_bytes} bytes, median of {rounds} rounds; delays at {rate:,} a second,"
        f" {rounds} x {seconds} s; ratios beside Kafka"
    )


def _print_results(lines: Sequence["BaseModel"], output: Path | None, *, as_json: bool) -> None:
    _write(lines, output)
    print_rows(lines, as_json=as_json)


def _write(lines: Sequence["BaseModel"], output: Path | None) -> None:
    if output is not None:
        output.write_bytes(orjson.dumps([line.model_dump() for line in lines], option=orjson.OPT_INDENT_2) + b"\n")


def _draw(values: dict[str, float], unit: str, plot: Path | None) -> None:
    """Draw bars on the terminal, and into a file if one is named."""
    from penstock.lab.bench.drawing import bars, save_bars

    for line in bars(values, unit):
        say(line)
    if plot is not None:
        save_bars(values, unit, plot)
