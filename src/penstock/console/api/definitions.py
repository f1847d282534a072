"""What a pipeline's file says: its text, checked while one types, and how its expectations are met."""

from collections import Counter
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from penstock.config import document
from penstock.console.api.pipelines import Check, Name, file_of
from penstock.console.asking import NEEDS, FromConsole
from penstock.errors import BadInput, EnvironmentNotReady
from penstock.operate import history
from penstock.operate.history import BatchRecord
from penstock.pipeline.load import load_with_warnings
from penstock.pipeline.spec import PipelineSpec

router = APIRouter(prefix="/pipelines", tags=["pipelines"])
_BATCHES = 200
_MOST_CHARACTERS = 200_000


class Definition(BaseModel, frozen=True):
    """A pipeline's file."""

    file: str = Field(description="Where it is.")
    language: Literal["yaml", "python"] = Field(description="What it is written in.")
    text: str = Field(description="What it holds.")


class Typed(BaseModel, frozen=True, extra="forbid"):
    """A draft of a pipeline's file."""

    text: str = Field(max_length=_MOST_CHARACTERS, description="YAML.")


class Met(BaseModel, frozen=True):
    """How one expectation was met."""

    name: str = Field(description="The expectation.")
    that: str = Field(description="Its condition.")
    otherwise: str = Field(description="What happens to a row that does not meet it.")
    events: int = Field(description="Events of the newest batches, 200 at most.")
    broken: int = Field(description="Rows of theirs that did not meet it.")
    pass_rate: float | None = Field(description="The share that did; none before the first event.")


@router.get("/{name}/definition", summary="A pipeline's file", dependencies=NEEDS["operator"])
def get_definition(console: FromConsole, name: Name) -> Definition:
    """Return the file that it last ran with. It holds no secrets, only where they are kept."""
    file = file_of(console, name)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentNotReady(f"{file} cannot be read: {error}") from None
    return Definition(file=str(file), language="python" if file.suffix == ".py" else "yaml", text=text)


@router.post("/{name}/definition/check", summary="Check text as one types", dependencies=NEEDS["operator"])
def check_text(console: FromConsole, name: Name, typed: Typed) -> Check:
    """Check text as if it were the pipeline's file. Nothing is written, imported or run."""
    file = file_of(console, name)
    if file.suffix == ".py":
        raise BadInput(f"{file} is a program, and is checked by running it", fix="Change the file, and check that")
    try:
        spec, warnings = load_with_warnings(file, text=typed.text)
    except BadInput as error:
        said = [_without(file, line) for line in str(error).splitlines()]
        return Check(pipeline=name, file=str(file), mistakes=said, warnings=[])
    mistakes = [] if spec.name == name else [f"name: this is pipeline '{name}', and another name is another pipeline"]
    return Check(pipeline=name, file=str(file), mistakes=mistakes, warnings=[_without(file, each) for each in warnings])


@router.get("/{name}/expectations", summary="How expectations are met", dependencies=NEEDS["viewer"])
def get_expectations(console: FromConsole, name: Name) -> list[Met]:
    """Return each expectation of a YAML file with the share of events that met it; nothing for other files."""
    file = file_of(console, name)
    if file.suffix == ".py":
        return []
    spec = document.load(file, PipelineSpec)
    batches = history.batches(console.settings.home, name, _BATCHES)
    events = sum(each.events for each in batches)
    broken = sum((Counter(_rules(each)) for each in batches), Counter())
    return [
        Met(
            name=rule.name,
            that=rule.that,
            otherwise=rule.otherwise,
            events=events,
            broken=broken[rule.name],
            pass_rate=max(0.0, 1 - broken[rule.name] / events) if events else None,
        )
        for rule in spec.expect
    ]


def _rules(batch: BatchRecord) -> dict[str, Any]:
    found = batch.detail.get("rules")
    return found if isinstance(found, dict) else {}


def _without(file: Path, line: str) -> str:
    """Leave the file's name out of a complaint: the page shows this file."""
    return line.removeprefix(f"{file}:").lstrip()
