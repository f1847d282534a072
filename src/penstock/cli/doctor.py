"""penstock doctor: whether this machine can run Penstock."""

from typing import Annotated

import typer

from penstock.cli.output import Json, print_json, print_lines, say
from penstock.cli.progress import bar
from penstock.cli.session import session
from penstock.errors import PenstockError

_FOUND_SOMETHING = 1


def doctor(
    context: typer.Context,
    fix: Annotated[
        bool, typer.Option("--fix", help="First fetch missing jars and make folders; Java is left to you.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check Java, jars, disk, memory, ports, broker and clock; exit code 1 if one of them needs attention."""
    from penstock.operate.doctor import examine, fix_missing

    settings = session(context).settings
    if fix:
        with bar("fetching jars") as shown:
            try:
                fix_missing(settings, shown.update)
            except PenstockError as error:
                say(str(error))
    checks = []
    for check in examine(settings):
        checks.append(check)
        if not as_json:
            remedy = f". {check.fix}" if check.fix else ""
            print_lines([f"{'ok  ' if check.ok else 'FIX '} {check.check:<8} {check.detail}{remedy}"])
    if as_json:
        print_json(checks)
    wrong = [check.check for check in checks if not check.ok]
    say("everything is fine" if not wrong else f"needs attention: {', '.join(wrong)}")
    if wrong:
        raise typer.Exit(_FOUND_SOMETHING)
