"""penstock pipeline: from Kafka to tables."""

import typer

from penstock.cli.pipeline.define import check, new
from penstock.cli.pipeline.preview import preview
from penstock.cli.pipeline.rate import rate
from penstock.cli.pipeline.repair import rebuild, skip, skip_gap
from penstock.cli.pipeline.run import replay, run, start, stop, supervise
from penstock.cli.pipeline.watch import gaps, history, list_, logs, status

app = typer.Typer(help="Pipelines: from Kafka to tables, exactly once.", no_args_is_help=True)

app.command()(new)
app.command()(check)
app.command()(preview)
app.command()(run)
app.command()(start)
app.command(hidden=True)(supervise)
app.command()(stop)
app.command()(status)
app.command("list")(list_)
app.command()(logs)
app.command()(replay)
app.command()(history)
app.command()(rate)
app.command()(rebuild)
app.command("skip-gap")(skip_gap)
app.command()(skip)
app.command()(gaps)
