"""Reading a pipeline file, YAML or Python."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from penstock.config import document, project
from penstock.errors import BadInput, Mistakes, NotFound, one_line
from penstock.extras import require
from penstock.pipeline.check import problems
from penstock.pipeline.handlers import MODULE_PREFIX, Pipeline
from penstock.pipeline.spec import NAME, PipelineSpec
from penstock.steps.code_line import code_line, in_brackets
from penstock.steps.user_modules import first_in
from penstock.wording import nearest_file

_SHOWN = 10


def load(path: str | Path) -> PipelineSpec:
    """Read a pipeline and check it as a whole; complaints name the file, the line and the key.

    Raises `EnvironmentNotReady` if it needs an extra that is not installed.
    """
    return load_with_warnings(Path(path))[0]


def load_with_warnings(
    path: Path, *, once: bool = False, stream: bool = False, import_code: bool = False, text: str | None = None
) -> tuple[PipelineSpec, list[str]]:
    """As `load`; also return warnings, which may be false.

    With `once` a stream ends when caught up; with `stream` a scheduled pipeline goes on. `import_code` looks for the
    functions of steps, too. `text` is looked at instead of what a YAML file holds.
    """
    marks: dict[document.KeyPath, document.Mark] = {}
    if not path.exists():
        raise missing(path)
    if path.suffix == ".jsonl":
        send = f"Send them with: penstock produce TOPIC {path}"
        raise BadInput(f"{path} holds records, and a pipeline file is YAML or Python", fix=send)
    if path.suffix == ".py":
        spec = _from_python(path)
    else:
        spec, marks = document.load_with_marks(path, PipelineSpec, text)
    if once and spec.speed == "realtime":
        raise BadInput(f"pipeline '{spec.name}' runs in real time, and never catches up")
    if once:
        spec = spec.model_copy(update={"speed": "scheduled"})
    elif stream and spec.speed == "scheduled":
        spec = spec.model_copy(update={"speed": "stream"})
    found = problems(spec, path.resolve().parent, import_code=import_code)
    texts = {
        level: document.in_order(path, marks, [(each.keys, each.text) for each in found if each.level == level])
        for level in ("error", "warning")
    }
    if texts["error"]:
        raise Mistakes("\n".join(map(one_line, texts["error"])))
    if spec.metrics is not None:
        require("metrics", f"`metrics` of pipeline '{spec.name}'")
    return spec, texts["warning"]


def missing(path: Path) -> NotFound:
    """Return the error for a missing pipeline file, with the one that was probably meant, or those that exist."""
    there = sorted(each for each in path.parent.glob("*.y*ml") if each.name != project.FILE_NAME)
    if meant := nearest_file(path, [*path.parent.glob("*.py"), *there]):
        return NotFound(f"there is no pipeline file {path}", fix=meant)
    listed = ", ".join(map(str, there[:_SHOWN])) + (f" and {len(there) - _SHOWN} more" if len(there) > _SHOWN else "")
    is_named = path.suffix in {".yaml", ".yml"} and NAME.fullmatch(path.stem) and path.parent == Path()
    new = f"penstock pipeline new {path.stem if is_named else 'NAME'}"
    known = f"There {'is' if len(there) == 1 else 'are'} {listed}; {new} writes another"
    return NotFound(f"there is no pipeline file {path}", fix=known if there else f"Write one with: {new}")


def _from_python(path: Path) -> PipelineSpec:
    """Run the file and take the one `PipelineSpec`, or the one class of handlers, that it makes at its top level."""
    if not path.is_file():
        raise BadInput(f"{path} is not a file")
    module_spec = importlib.util.spec_from_file_location(f"{MODULE_PREFIX}{path.stem}", path)
    if module_spec is None or module_spec.loader is None:
        raise BadInput(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(module_spec)
    try:
        with first_in(path.resolve().parent):
            sys.modules[module.__name__] = module  # dataclasses look their own module up
            module_spec.loader.exec_module(module)
        classes = {each for each in vars(module).values() if _is_pipeline(each, module.__name__)}
        made = [each.spec() for each in classes]
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        texts = [(".".join(map(str, each["loc"])), document.in_words_of_keys(PipelineSpec, each)) for each in problems]
        where = in_brackets(code_line(error))
        raise Mistakes("\n".join(one_line(f"{path}: {keys}: {text}{where}") for keys, text in texts)) from None
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's own file raises
        reason = f"{type(error).__name__}: {error}{in_brackets(code_line(error))}"
        raise BadInput(f"{path} cannot be run: {reason}") from None
    named = [value for value in vars(module).values() if isinstance(value, PipelineSpec)]
    found: list[PipelineSpec] = []
    for spec in [*named, *made]:
        if spec not in found:
            found.append(spec)
    if len(found) != 1:
        raise BadInput(
            f"{path} makes {len(found)} pipelines, and one is needed: pipeline = PipelineSpec(...), or a class"
        )
    chosen: PipelineSpec = _from_folder(found[0], path.absolute().parent)
    return chosen


def _is_pipeline(value: Any, module: str) -> bool:
    """Return whether this is a class of handlers of the file's own, and not a base class of others."""
    return (
        isinstance(value, type)
        and issubclass(value, Pipeline)
        and value.__module__ == module
        and hasattr(value, "name")
    )


def _from_folder(value: Any, folder: Path) -> Any:
    """Let relative paths count from the folder of the file, as they do in YAML."""
    if isinstance(value, Path):
        return folder / value
    if isinstance(value, BaseModel):
        return value.model_copy(update={name: _from_folder(each, folder) for name, each in value})
    if isinstance(value, list):
        return [_from_folder(each, folder) for each in value]
    return value
