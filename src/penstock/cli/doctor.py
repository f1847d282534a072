"""penstock doctor: whether this machine is fit."""

import typer

from penstock.cli.output import Json, print_json, print_lines, say
from penstock.cli.session import session

_FOUND_SOMETHING = 1


def doctor(context: typer.Context, as_json: Json = False) -> None:
    """Check Java, jars, disk, memory, ports, broker and clock; exit code 1 if something needs a hand."""
    from penstock.operate.doctor import examine

    checks = []
    for check in examine(session(context).settings):
        checks.append(check)
        if not as_json:
            fix = f". {check.fix}" if check.fix else ""
            print_lines([f"{'ok  ' if check.ok else 'FIX '} {check.check:<8} {check.detail}{fix}"])
    if as_json:
        print_json(checks)
    wrong = [check.check for check in checks if not check.ok]
    say("everything is fit" if not wrong else f"needs a hand: {', '.join(wrong)}")
    if wrong:
        raise typer.Exit(_FOUND_SOMETHING)
