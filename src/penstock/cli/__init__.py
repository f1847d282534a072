"""The command line. One file per command group; each imports what it needs when it runs."""

import errno
import os
import select
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup, TyperOption
from typer.exceptions import TyperException

from penstock import __version__
from penstock.cli import (
    acl,
    bench,
    broker,
    cdc,
    connect,
    console,
    consume,
    dead,
    demo,
    doctor,
    drill,
    examples,
    gateway,
    group,
    init,
    jars,
    lineage,
    node,
    pipeline,
    produce,
    scenario,
    schema,
    sim,
    table,
    tables,
    topic,
    user,
)
from penstock.cli.misuse import JSON, misused
from penstock.cli.output import INTERRUPTED, say, say_error
from penstock.cli.session import Session
from penstock.errors import BrokerUnavailable, EnvironmentNotReady, PenstockError, interruption_in

_AGAIN_S = 0.05
_DEFECT = 70
_WIDE = "--wide"
_REMEDIES = {
    errno.EACCES: "Choose a place that is yours, or ask whose it is",
    errno.EROFS: "Choose a place that can be written to",
    errno.ENOSPC: "Make room on the disk, then run it again",
    errno.EDQUOT: "Make room on the disk, then run it again",
}
"""What to do about errors of the operating system."""


def _output_has_gone() -> bool:
    """Return whether nobody reads standard output or standard error any more."""
    look = select.poll()
    for number in (1, 2):
        look.register(number, 0)
    return any(seen & (select.POLLERR | select.POLLHUP) for _, seen in look.poll(0))


class _Group(TyperGroup):
    """Turns every error into one line and its exit code; see penstock.errors for the list."""

    _as_json = False

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> Any:
        options = args[: args.index("--")] if "--" in args else args
        self._as_json = JSON in options
        if _WIDE in options:  # where people type it: behind the command that it is about
            args = [_WIDE, *options[: options.index(_WIDE)], *args[options.index(_WIDE) + 1 :]]
        try:
            return super().make_context(info_name, args, *rest, **extra)
        except TyperException as error:
            raise misused(error, info_name or "penstock", as_json=self._as_json) from None
        except KeyboardInterrupt as interrupt:
            raise self._interrupted(interrupt) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TyperException as error:
            raise misused(error, f"{ctx.command_path} {ctx.invoked_subcommand}", as_json=self._as_json) from None
        except PenstockError as error:
            self._end(str(error), error.exit_code, {"what": error.what, "safe": error.safe, "fix": error.fix})
        except KeyboardInterrupt as interrupt:
            raise self._interrupted(interrupt) from None
        except BrokenPipeError as error:
            if not _output_has_gone():
                self._end(f"a server ended the connection: {error.strerror}", BrokerUnavailable.exit_code)
            # The reader of our output has gone; that is its right. Nothing more can be written.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (typer.Exit, typer.Abort):
            raise
        except OSError as error:
            # A full disk, a folder that may not be written: the machine's, not the program's fault.
            text = f"{error.filename}: {error.strerror}" if error.filename else f"{error.strerror or error}"
            fix = _REMEDIES.get(error.errno or 0, "")
            self._end(f"{text}. {fix}" if fix else text, EnvironmentNotReady.exit_code)
        except Exception as error:
            if os.environ.get("PENSTOCK_DEBUG"):
                raise
            self._end_unexpectedly(error)

    def _interrupted(self, interrupt: KeyboardInterrupt) -> typer.Exit:
        """Say that Ctrl-C ended it, and how far the command had got."""
        notes = ", ".join(getattr(interrupt, "__notes__", []))
        text = f"interrupted: {notes}" if notes else "interrupted"
        if self._as_json:
            say_error(text, exit_code=INTERRUPTED, as_json=True)
        else:
            say(text)
        return typer.Exit(INTERRUPTED)

    def _end_unexpectedly(self, error: Exception) -> NoReturn:
        if (interrupt := interruption_in(error)) is not None:
            raise self._interrupted(interrupt) from None
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


_type_of_any = TyperOption.display_type_rich


def _type_of_value(option: TyperOption, ctx: Any) -> str | None:
    """Return what help shows as the type of an option's value; Typer shows one behind flags, which take none."""
    return None if option.is_flag else _type_of_any(option, ctx)


TyperOption.display_type_rich = _type_of_value  # type: ignore[method-assign,assignment]


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
    wide: Annotated[
        bool, typer.Option(_WIDE, help="Show long values in tables whole; works with every command.")
    ] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Set up what every command needs."""
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
app.command("gateway")(gateway.gateway)
app.add_typer(console.app, name="console")
app.add_typer(topic.app, name="topic")
app.add_typer(group.app, name="group")
app.add_typer(user.app, name="user")
app.add_typer(acl.app, name="acl")
app.add_typer(node.app, name="node")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(schema.app, name="schema")
app.add_typer(connect.app, name="connect")
app.add_typer(cdc.app, name="cdc")
app.add_typer(dead.app, name="dead")
app.add_typer(table.app, name="table")
app.add_typer(examples.app, name="examples")
app.add_typer(lineage.app, name="lineage")
app.add_typer(jars.app, name="jars")
app.add_typer(bench.app, name="bench")
app.add_typer(sim.app, name="sim")


def _interrupt_again(ignored: Any) -> None:
    """Repeat a Ctrl+C that fell into a finalizer, where Python drops whatever is raised."""
    if isinstance(ignored.exc_value, KeyboardInterrupt):
        threading.Timer(_AGAIN_S, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(ignored)


def main() -> None:
    """Run the command line. SIGTERM is treated like Ctrl+C: what a command has started ends with it."""
    sys.unraisablehook = _interrupt_again
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        app()
    except KeyboardInterrupt:  # while Typer was still putting the commands together
        say("interrupted")
        sys.exit(INTERRUPTED)
