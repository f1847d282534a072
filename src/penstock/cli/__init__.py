"""The command line. One file per command group; each loads what it needs when it runs."""

import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from penstock import __version__
from penstock.cli import (
    acl,
    bench,
    broker,
    consume,
    dead,
    demo,
    doctor,
    drill,
    examples,
    group,
    init,
    jars,
    node,
    pipeline,
    produce,
    scenario,
    sim,
    table,
    tables,
    topic,
    user,
)
from penstock.cli.output import say, say_error
from penstock.cli.session import Session
from penstock.errors import EnvironmentNotReady, PenstockError

_DEFECT = 70
_INTERRUPTED = 130
_WIDE = "--wide"


def _misused(error: TyperException, command: str, *, as_json: bool) -> Exception:
    """Say what is wrong with a command line in one line, instead of Typer's box; `command` if it names none."""
    message, context = error.format_message().replace("Value error, ", ""), getattr(error, "ctx", None)
    if not message or "\n" in message:
        return error  # a group that was called without a command: its help is printed, or is the message
    path = context.command_path if context is not None else command
    text = f"{message[0].lower()}{message[1:].rstrip('.')}. See: {path} --help"
    say_error(text, exit_code=error.exit_code, as_json=as_json)
    return typer.Exit(error.exit_code)


class _Group(TyperGroup):
    """Turns every error into one line and its exit code; see penstock.errors for the list."""

    _as_json = False

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> Any:
        options = args[: args.index("--")] if "--" in args else args
        self._as_json = "--json" in options
        if _WIDE in options:  # where people type it: behind the command that it is about
            args = [_WIDE, *options[: options.index(_WIDE)], *args[options.index(_WIDE) + 1 :]]
        try:
            return super().make_context(info_name, args, *rest, **extra)
        except TyperException as error:
            raise _misused(error, info_name or "penstock", as_json=self._as_json) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TyperException as error:
            raise _misused(error, f"{ctx.command_path} {ctx.invoked_subcommand}", as_json=self._as_json) from None
        except PenstockError as error:
            self._end(str(error), error.exit_code, {"what": error.what, "safe": error.safe, "fix": error.fix})
        except KeyboardInterrupt:
            if self._as_json:
                self._end("interrupted", _INTERRUPTED)
            say("interrupted")
            raise typer.Exit(_INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of our output has gone; that is its right. Nothing more can be written.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (typer.Exit, typer.Abort):
            raise
        except OSError as error:
            # A full disk, a folder that may not be written: the machine's, not the program's fault.
            text = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
            self._end(text, EnvironmentNotReady.exit_code)
        except Exception as error:
            if os.environ.get("PENSTOCK_DEBUG"):
                raise
            self._end(
                f"a defect in Penstock: {type(error).__name__}: {error}."
                " Run it again with PENSTOCK_DEBUG=1 and report the traceback",
                _DEFECT,
            )

    def _end(self, text: str, exit_code: int, detail: dict[str, str] | None = None) -> NoReturn:
        say_error(text, exit_code=exit_code, as_json=self._as_json, detail=detail)
        raise typer.Exit(exit_code) from None


app = typer.Typer(
    cls=_Group,
    name="penstock",
    help="Kafka events into tables, none lost, none doubled. Start with: penstock up",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    project: Annotated[Path | None, typer.Option(help="Project file; the nearest penstock.yaml if left out.")] = None,
    home: Annotated[
        Path | None, typer.Option(help="Folder for broker data; .penstock beside the project file.")
    ] = None,
    bootstrap: Annotated[str | None, typer.Option(help="host:port of an external cluster.")] = None,
    as_user: Annotated[str | None, typer.Option("--user", help="Act as this user of a secure local cluster.")] = None,
    wide: Annotated[bool, typer.Option(_WIDE, help="Cut no value in a table; goes with every command.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Settle what every command needs."""
    tables.is_wide = wide
    context.obj = Session(project_file=project, home=home, bootstrap=bootstrap, user=as_user)


for command in (broker.up, broker.down, broker.status, broker.logs, broker.restart):
    app.command()(command)
app.command("init")(init.init)
app.command("doctor")(doctor.doctor)
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)
app.command("demo")(demo.demo)
app.command("drill")(drill.drill)
app.command("scenario")(scenario.scenario)
app.add_typer(topic.app, name="topic")
app.add_typer(group.app, name="group")
app.add_typer(user.app, name="user")
app.add_typer(acl.app, name="acl")
app.add_typer(node.app, name="node")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(dead.app, name="dead")
app.add_typer(table.app, name="table")
app.add_typer(examples.app, name="examples")
app.add_typer(jars.app, name="jars")
app.add_typer(bench.app, name="bench")
app.add_typer(sim.app, name="sim")


def main() -> None:
    """Run the command line. Being told to end is as good as Ctrl+C: what a command has started ends with it."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    app()
