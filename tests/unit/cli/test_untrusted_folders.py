"""Commands in folders that others may write to, and data that would steer a terminal."""

import errno
import json
import os
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from typer.testing import CliRunner

from penstock.cli import app
from penstock.jvm import jars
from penstock.pipeline.infer import infer
from penstock.pipeline.load import load
from penstock.pipeline.template import template
from penstock.testing import run

PIPELINE = {"name": "p", "source": {"topics": ["t"]}, "decode": {"type": "text"}, "sinks": [{"type": "console"}]}


def test_a_pipeline_without_code_of_its_own_imports_nothing_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "planted_beside.py").write_text("")
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(PIPELINE))

    run(file, ["one"])

    assert str(tmp_path) not in sys.path


def test_check_imports_no_module_from_a_folder_that_others_may_write_to(tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    (tmp_path / "rules_of_others.py").write_text(f"open({str(planted)!r}, 'w')\ndef f(event): return event\n")
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump({**PIPELINE, "steps": [{"python": "rules_of_others:f"}]}))
    tmp_path.chmod(0o777)

    said = CliRunner().invoke(app, ["pipeline", "check", str(file)])

    assert 0 == said.exit_code
    assert "'rules_of_others' is not imported" in said.stderr
    assert not planted.exists()


def test_a_module_that_exits_is_a_mistake_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "exiting_module.py").write_text("import sys\nsys.exit(0)\n")
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump({**PIPELINE, "steps": [{"python": "exiting_module:f"}]}))

    said = CliRunner().invoke(app, ["pipeline", "check", str(file)])

    assert 2 == said.exit_code
    assert "cannot be imported: SystemExit: 0 (exiting_module.py:2: sys.exit(0))" in said.stderr


@pytest.mark.parametrize("options", [[], ["--fix"]])
def test_doctor_in_a_folder_that_others_may_write_to_says_so_once_as_a_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setattr(jars, "ensure", lambda *_: [])
    monkeypatch.delenv("PENSTOCK_HOME", raising=False)
    tmp_path.chmod(0o777)

    with chdir(tmp_path):
        said = CliRunner().invoke(app, ["doctor", *options])

    assert 1 == said.exit_code, said.stderr
    assert (
        f"FIX  folder   {tmp_path} is writable by everybody, so it is not trusted. If it is meant: --home"
        in said.stdout
    )
    assert 1 == (said.stdout + said.stderr).count("not trusted")


def test_a_file_that_may_not_be_written_is_told_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/srv/x.yaml")

    monkeypatch.setattr("penstock.pipeline.load.load_with_warnings", refused)

    said = CliRunner().invoke(app, ["--home", str(tmp_path), "pipeline", "check", "x.yaml"])

    expected = "error: /srv/x.yaml: Permission denied. Choose a place that is yours, or ask whose it is\n"
    assert (7, expected) == (said.exit_code, said.stderr)


def test_init_writes_nothing_through_a_home_that_is_not_the_users(tmp_path: Path) -> None:
    (tmp_path / ".penstock").mkdir()
    (tmp_path / ".penstock").chmod(0o777)

    said = CliRunner().invoke(app, ["init", str(tmp_path)])

    assert 2 == said.exit_code
    assert "is writable by everybody, so it is not trusted" in said.stderr
    assert [tmp_path / ".penstock"] == list(tmp_path.iterdir())


def test_errors_as_json_are_whole_and_plain_whatever_is_in_them(tmp_path: Path) -> None:
    name = os.fsdecode(b"no\xff\xe2\x80\xae.yaml")
    command = [sys.executable, "-m", "penstock", "pipeline", "check", "--json", name]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)

    assert 3 == done.returncode
    assert done.stderr.isascii()
    assert "there is no pipeline file" in json.loads(done.stderr)["error"]


def test_a_preview_from_nowhere_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(PIPELINE))

    said = CliRunner().invoke(app, ["--bootstrap", "127.0.0.1:1", "pipeline", "preview", str(file), "--from", "soon"])

    assert 2 == said.exit_code
    assert "--from: 'soon' is not a position in a topic" in said.stderr


@pytest.mark.parametrize("name", ["123", "null", "2026-01-01", "0x1f", "1e3", "yes"])
def test_names_that_yaml_takes_for_something_else_are_written_as_text(tmp_path: Path, name: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(template(name.replace(".", ""), name, "schema.json"))

    spec = load(file)

    assert (name, [name]) == (spec.name, spec.source.named_topics)


def test_fields_that_no_schema_can_have_are_left_out(tmp_path: Path) -> None:
    deep: object = 1
    for _ in range(300):
        deep = {"a": deep}
    record = {"id": 1, "select": 2, "case": 3, "deep": deep, "mixed": [1, "x"]}
    found = infer([(None, json.dumps(record).encode())])
    file = tmp_path / "p.yaml"
    file.write_text(template("p", "t", "schema.json", found))

    assert load(file).decode is not None
    assert "deep" in found.left_out
    expected = "in 1 of 1, 1 would be a dead letter (mixed values inside)"
    assert expected == next(each.note for each in found.columns if each.name == "mixed")


def test_csv_on_a_terminal_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"v": ["\x1b]0;owned\x07"]}))
    command = f"{sys.executable} -m penstock table show {tmp_path / 't'} --format csv"

    done = subprocess.run(["/usr/bin/script", "-qec", command, "/dev/null"], capture_output=True, check=True)

    assert b"\x1b]0;" not in done.stdout
    assert b"\\u001b]0;owned" in done.stdout


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: {b: 1\nc: 2\n", "a bracket that line 1 opens is not closed"),
        ("a:\n\tb: 1\n", "there is a tab here"),
        ("a: b\nc\n", "line 2 has no colon after its key"),
    ],
)
def test_what_yaml_does_not_understand_is_said(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(text)

    said = CliRunner().invoke(app, ["pipeline", "check", str(file)])

    assert reason in said.stderr
