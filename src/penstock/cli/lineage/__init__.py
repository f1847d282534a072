"""penstock lineage: where data come from and where they go."""

import typer

from penstock.cli.lineage.ask import columns, from_, of, runs, search, to
from penstock.cli.lineage.seed import seed
from penstock.cli.lineage.serve import serve, users
from penstock.cli.lineage.store import clean, migrate, start

app = typer.Typer(help="Lineage: where data come from, and where they go.", no_args_is_help=True)

app.command()(of)
app.command("from")(from_)
app.command()(to)
app.command()(columns)
app.command()(runs)
app.command()(search)
app.command()(start)
app.command()(serve)
app.command()(migrate)
app.command()(clean)
app.add_typer(users, name="user")
app.command()(seed)
