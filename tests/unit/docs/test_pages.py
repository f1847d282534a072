"""What the pages say is true as far as it can be seen without a server: commands, options, files, programs, links."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import orjson
import pytest
import typer
import yaml

from penstock.cli import app, examples
from penstock.config.project import Project
from penstock.pipeline.load import load_with_warnings
from penstock.pipeline.spec import PipelineSpec
from penstock.pipeline.template import template

from support import pages
from support.pages import ROOT, Block

ALL = [block for page in pages.pages() for block in pages.blocks(page)]
ROOT_COMMAND: Any = typer.main.get_command(app)
# Everything that nobody but the reader runs: the page, and its reason.
NOT_RUN = [
    ("CONTRIBUTING.md", "the test suite itself, and what it stands on"),
    ("README.md", "installs what the tests run with"),
    ("README.md", "minutes each; scenarios, drills and benches have tests of their own"),
    ("README.md", "the test suite and what it tests"),
    ("docs/benchmarks.md", "a measurement of minutes on an idle machine"),
    ("docs/brokers.md", "a measurement of minutes on an idle machine"),
    ("docs/console.md", "goes on until it is stopped; the console has tests of its own"),
    ("docs/cdc.md", "needs a PostgreSQL of yours"),
    ("docs/connect.md", "it starts servers on fixed ports"),
    ("docs/drills.md", "minutes; all drills have a test of their own"),
    ("docs/extending.md", "a test, for pytest; the repository has it"),
    ("docs/extending.md", "needs the package of this page, which a test of the example installs"),
    ("docs/handlers.md", "asks a service of yours"),
    ("docs/install.md", "a test builds the wheel and does this with it"),
    ("docs/lineage.md", "goes on in the background; the pipeline has tests of its own"),
    ("docs/lineage.md", "minutes each; every scenario has a test of its own"),
    ("docs/lineage.md", "needs a Kafka; a history has tests of its own"),
    ("docs/lineage.md", "nothing is that old on a page; cleaning has tests of its own"),
    ("docs/lineage.md", "goes on until it is stopped; the gateway has tests of its own"),
    ("docs/pipelines.md", "needs a Spark cluster of yours"),
    ("docs/reliability.md", "the test suite itself"),
    ("docs/schemas.md", "needs a registry of yours"),
    ("docs/security.md", "needs a cluster of yours"),
    ("docs/services.md", "it starts servers on fixed ports"),
    ("docs/superhero.md", "minutes each; every scenario has a test of its own"),
    ("docs/superhero.md", "the demo has a test of its own"),
    ("docs/system.md", "it starts servers on fixed ports"),
    ("docs/system.md", "the whole system has a test of its own"),
    ("docs/transports.md", "a measurement of minutes on an idle machine"),
]


def names(blocks: list[Block]) -> list[Any]:
    return [pytest.param(block, id=block.where) for block in blocks]


def leaves(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command with its path."""
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from leaves(inner, f"{path} {name}".strip())
    if not hasattr(command, "commands"):
        yield path, command


COMMANDS = dict(leaves(ROOT_COMMAND))


def options(command: Any) -> set[str]:
    """Return the options that may stand with a command, those before it included."""
    parameters = [*command.params, *ROOT_COMMAND.params]
    always = {"--help", "-h", "--install-completion", "--show-completion"}
    return {name for each in parameters for name in (*each.opts, *each.secondary_opts)} | always


def command_of(words: list[str]) -> tuple[str, Any]:
    """Find the command that a line of words calls."""
    plain = iter(words)
    path, command = "", ROOT_COMMAND
    for word in plain:
        if word.startswith("-"):
            if word in {"--project", "--home", "--bootstrap", "--user"}:
                next(plain)
            continue
        inner = getattr(command, "commands", {}).get(word)
        if inner is None:
            break
        path, command = f"{path} {word}".strip(), inner
    return path, command


@pytest.mark.parametrize("page", pages.pages())
def test_every_block_is_fenced_and_in_a_language_that_is_tested(page: str) -> None:
    lines = re.sub(r"^```.*?^```$", "", pages.text_of(page), flags=re.MULTILINE | re.DOTALL).splitlines()
    indented = [line for line in lines if re.match(r" {4,}\S", line) and "src=" not in line]
    languages = {block.language for block in pages.blocks(page)}

    assert [] == indented
    assert set() == languages - pages.RUN - pages.WRITTEN - pages.SHOWN


def test_what_is_not_run_is_on_this_list_with_its_reason() -> None:
    assert sorted(NOT_RUN) == sorted({(block.page, block.not_run) for block in ALL if block.not_run})


def test_every_page_with_something_to_run_is_typed_by_a_test() -> None:
    assert {"README.md", *pages.PAGES, *pages.SLOW_PAGES} == {block.page for block in ALL if block.is_run}


@pytest.mark.parametrize("block", names([block for block in ALL if block.language in {"sh", "console"}]))
def test_every_command_of_a_block_is_one_that_the_command_line_takes(block: Block) -> None:
    for words in pages.commands(block.script()):
        context = ROOT_COMMAND.make_context("penstock", list(words))
        while hasattr(context.command, "commands"):
            given = [*context._protected_args, *context.args]
            if not given and context.command.invoke_without_command:
                break
            name, command, rest = context.command.resolve_command(context, given)
            context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("page", pages.pages())
def test_commands_in_the_text_are_there_and_so_are_their_options(page: str) -> None:
    prose = re.sub(r"^```.*?^```$", "", pages.text_of(page), flags=re.MULTILINE | re.DOTALL)
    wrong = []
    for said in re.findall(r"`penstock ([^`]+)`", prose):
        words = said.split()
        path, command = command_of(words)
        named = {word.partition("=")[0] for word in words if word.startswith("--")}
        if words[0] != "COMMAND" and ((words[0][0].isalpha() and not path) or not named <= options(command)):
            wrong.append(said)

    assert [] == wrong


def test_the_page_of_commands_has_every_command_and_no_option_that_is_none() -> None:
    rows = re.findall(r"^\| (`.+?) \|(.*)\|$", pages.text_of("docs/cli.md"), re.MULTILINE)
    told: dict[str, set[str]] = {}
    for cell, rest in rows:
        for said in re.findall(r"`([^`]+)`", cell):
            told[command_of(said.split())[0]] = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", rest))
    unknown = {path: found - options(COMMANDS[path]) for path, found in told.items() if path in COMMANDS}

    assert set() == set(COMMANDS) - set(told)
    assert {} == {path: each for path, each in unknown.items() if each}


@pytest.mark.parametrize(
    "block", names([block for block in ALL if block.language in pages.WRITTEN and not (block.wrong or block.not_run)])
)
def test_every_file_is_valid_and_pipelines_and_projects_are_accepted(block: Block, tmp_path: Path) -> None:
    if block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "json":
        for line in block.text.splitlines() if block.file.endswith("jsonl") else [block.text]:
            orjson.loads(line)
    elif block.language == "yaml":
        document = yaml.safe_load(block.text)
        if set(Project.model_fields) & set(document):
            Project.model_validate(document)
        elif set(PipelineSpec.model_fields) & set(document):
            load_with_warnings(written(block, document, tmp_path))


def written(block: Block, document: dict[str, Any], folder: Path) -> Path:
    """Write a pipeline file; a part of one gets what else a pipeline needs."""
    for each in pages.blocks(block.page):
        if each.file.endswith(".py"):
            (folder / each.file).write_text(each.text, encoding="utf-8")
    whole = {
        "name": "part",
        "source": {"topics": ["orders"]},
        "decode": {"type": "json", "schema": "id bigint NOT NULL, name string, amount double, at timestamp"},
        "steps": [{"sql": "SELECT *, amount > 100 AS large FROM events"}],
        "sinks": [{"type": "delta", "path": "tables/part"}],
    }
    path = folder / "pipeline.yaml"
    path.write_text(block.text if "name" in document else yaml.safe_dump(whole | document), encoding="utf-8")
    return path


@pytest.mark.parametrize("block", names([block for block in ALL if block.language == "python"]))
def test_every_program_is_python_and_what_is_shown_from_a_file_is_in_it(block: Block) -> None:
    if block.part_of:
        assert block.text in (ROOT / block.part_of).read_text(encoding="utf-8"), block.where
    else:
        ast.parse(dedent(block.text), block.where)


def anchors(page: str) -> set[str]:
    """Return the names that GitHub gives to the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", pages.text_of(page), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages.pages())
def test_every_link_leads_somewhere(page: str) -> None:
    text = re.sub(r"^```.*?^```$", "", pages.text_of(page), flags=re.MULTILINE | re.DOTALL)
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        if ":" in path:
            continue
        target = ((ROOT / page).parent / path if path else ROOT / page).resolve()
        if not target.exists() or (anchor and anchor not in anchors(str(target.relative_to(ROOT)))):
            lost.append(link)

    assert [] == lost


def test_the_gallery_has_every_example_and_no_other() -> None:
    listed = re.findall(r"^\| \[(\w+)\]", pages.text_of("docs/examples.md"), re.MULTILINE)

    assert sorted(examples.names()) == sorted(listed)


def test_the_tutorial_has_the_files_that_are_copied_by_its_name() -> None:
    shown = {block.file: block.text for block in reversed(pages.blocks("docs/tutorial.md")) if block.file}

    assert (ROOT / "examples/tutorial/orders.jsonl").read_text(encoding="utf-8") == shown["orders.jsonl"]


def test_readme_shows_the_pipeline_that_new_writes(tmp_path: Path) -> None:
    (shown,) = (block for block in pages.blocks("README.md") if block.language == "yaml")
    paths = {"shown": shown.text, "new": template("orders", "orders", "pipeline.json")}
    for name, text in paths.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    first, second = (load_with_warnings(tmp_path / f"{name}.yaml")[0] for name in paths)

    assert first == second
