"""penstock lineage seed: a made-up history, to try lineage out."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from penstock.cli.output import Json, print_json, say
from penstock.cli.progress import bar
from penstock.cli.session import session
from penstock.config.complaints import in_words
from penstock.errors import BadInput
from penstock.extras import require

_DAY = ["%Y-%m-%d"]


def seed(
    context: typer.Context,
    start: Annotated[
        datetime | None, typer.Option(formats=_DAY, help="First day; two weeks before the last if left out.")
    ] = None,
    end: Annotated[datetime | None, typer.Option(formats=_DAY, help="Last day; yesterday if left out.")] = None,
    min_runs: Annotated[int, typer.Option(min=1, help="Runs a day, at least.")] = 50,
    max_runs: Annotated[int, typer.Option(min=1, max=100_000, help="Runs a day, at most.")] = 100,
    seed: Annotated[int, typer.Option(help="The same seed is the same history.")] = 1,
    topic: Annotated[str, typer.Option(help="Topic to send to; made if Kafka has none.")] = "input.runs",
    as_json: Json = False,
) -> None:
    """Send a made-up history of Spark, Airflow, dbt, Flink, Hive and other jobs into Kafka, to try lineage out."""
    require("lineage", "a history of lineage")
    from pydantic import ValidationError

    from penstock.lineage.seed.history import SeedOptions, send

    last = (end or datetime.now(UTC) - timedelta(days=1)).date()
    first = last - timedelta(days=13) if start is None else start.date()
    try:
        options = SeedOptions(start=first, end=last, min_runs=min_runs, max_runs=max_runs, seed=seed)
    except ValidationError as error:
        problem = in_words(error.errors(include_input=False)[0])
        raise BadInput(problem, safe="Nothing was sent") from None
    done = None
    with bar(f"sending to {topic}") as shown:
        for done in send(session(context).live_connection(), options, topic):
            shown.update(done.days, (last - first).days + 1)
    if done is not None:
        say(f"{done.events:,} events of {done.runs:,} runs in {done.days} days, acknowledged in topic '{done.topic}'")
        if as_json:
            print_json(done)
