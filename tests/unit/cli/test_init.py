"""penstock init, as somebody sees it who has no project yet."""

from pathlib import Path

from typer.testing import CliRunner

from penstock.cli import app


def test_init_names_the_one_command_that_brings_the_project_up(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["init", str(tmp_path)])

    assert (0, f"{tmp_path / 'penstock.yaml'} written; next: penstock up\n") == (said.exit_code, said.stderr)
