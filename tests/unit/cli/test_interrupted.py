"""A command that is told to end before it has begun."""

import signal
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
import typer
import typer.core

from penstock import cli


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_while_the_commands_are_put_together_is_one_line_and_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    monkeypatch.setattr(cli, "app", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_ctrl_c_while_the_commands_are_imported_is_one_line_and_130() -> None:
    program = """
        import sys

        class Interrupting:
            def find_spec(self, name, *_):
                if name == "penstock.cli":
                    raise KeyboardInterrupt

        sys.meta_path.insert(0, Interrupting())
        from penstock.__main__ import main
        main()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)

    assert (130, "", "interrupted\n") == (done.returncode, done.stdout, done.stderr)


def test_the_command_that_is_installed_begins_where_ctrl_c_is_caught() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]

    assert {"penstock": "penstock.__main__:main"} == project["scripts"]


def test_ctrl_c_while_the_options_are_read_is_one_line_and_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(typer.core.TyperGroup, "make_context", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.app(["topic", "list"])
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_ctrl_c_that_falls_into_a_finalizer_is_not_lost() -> None:
    program = """
        import time, weakref
        from penstock import cli

        class Thing:
            pass

        def interrupted(_):
            raise KeyboardInterrupt

        def command():
            thing = Thing()
            watch = weakref.ref(thing, interrupted)
            del thing
            time.sleep(30)
            print("went on")

        cli.app = command
        cli.main()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)

    assert (130, "", "interrupted\n") == (done.returncode, done.stdout, done.stderr)


def test_ctrl_c_inside_of_a_call_of_confluent_kafka_is_one_line_and_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted_inside(*_: object, **__: object) -> None:
        raise SystemError("list_offsets returned a result with an exception set") from KeyboardInterrupt()

    monkeypatch.setattr(typer.core.TyperGroup, "invoke", interrupted_inside)
    with pytest.raises(SystemExit) as ended:
        cli.app(["topic", "list"])
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"
