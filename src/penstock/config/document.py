"""YAML files checked against a model: every complaint names file, line, column, key path and remedy."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from penstock.config.complaints import in_words
from penstock.errors import BadInput, Mistakes, NotFound, one_line
from penstock.wording import nearest

Model = TypeVar("Model", bound=BaseModel)
KeyPath = tuple[str | int, ...]
Mark = tuple[int, int]
"""A line and a column, counted from 1."""

_BOOL = "tag:yaml.org,2002:bool"
_DEEPEST = 50
_CONTRADICTION = "contradiction"
_WRONG_SHAPES = {"dict_type", "list_type", "model_attributes_type", "model_type", "string_type", "unknown_kind"}
"""For a plain word where keys belong, for instance: an example shows what is expected."""
_CALLED_HERE = {
    **dict.fromkeys(("cron", "interval", "mode", "schedule", "trigger"), "speed"),
    **dict.fromkeys(("input", "from", "kafka"), "source"),
    **dict.fromkeys(("destination", "output", "outputs", "target", "to"), "sinks"),
    **dict.fromkeys(("pipeline", "processors", "transform", "transforms"), "steps"),
    **dict.fromkeys(("deserializer", "format", "schema"), "decode"),
    **dict.fromkeys(("checks", "constraints", "quality", "tests", "validate"), "expect"),
}
"""Keys at the top that people know from other tools, and those of a pipeline file."""
_QUOTED = re.compile(r"""(['"])((?:\\.|(?!\1).)*)\1""")
"""What PyYAML repeats of a file, such as a tag: a password that begins with ! is one. Its own words are in <>."""


class _PlainLoader(yaml.SafeLoader):
    """YAML as people write it: no aliases, only text and numbers as keys, no duplicate keys, and `on` is a word."""

    _depth = 0
    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's attribute
        first: [each for each in resolvers if each[0] != _BOOL]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        start_mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            # An alias can hold itself, or multiply a small file into a huge one.
            raise _refuse("aliases (*name) are not used here", start_mark)
        if self._depth >= _DEEPEST:
            raise _refuse(f"this is nested more than {_DEEPEST} levels deep", start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - PyYAML's signature
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
            # PyYAML takes a tag's word for it: !!int "" is an IndexError, !!timestamp x an AttributeError.
            kind = str(node.tag).rpartition(":")[2]
            raise _refuse(f"this is not a valid {kind}", node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        seen = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _refuse("a key must be a plain word", key_node.start_mark)
            if key_node.value in seen:
                raise _refuse(f"the key '{key_node.value}' occurs twice", key_node.start_mark)
            seen.add(key_node.value)
        return super().construct_mapping(node, deep=deep)


_PlainLoader.add_implicit_resolver(_BOOL, re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))


class _NotPlainError(yaml.MarkedYAMLError):
    """What `_PlainLoader` refuses, in words that repeat no value."""


def _refuse(problem: str, mark: Any) -> _NotPlainError:
    return _NotPlainError(problem=problem, problem_mark=mark)


def _in_words(error: yaml.MarkedYAMLError) -> str:
    """Return what is most likely wrong, for the usual mistakes; for others what PyYAML says."""
    said, begun = str(error.problem), error.context_mark.line + 1 if error.context_mark else 0
    if "flow " in str(error.context):
        return f"a bracket that line {begun} opens is not closed, or a comma is missing"
    if "quoted scalar" in str(error.context):
        return f"a quote that line {begun} opens is not closed"
    if "simple key" in str(error.context):
        return f"line {begun} has no colon after its key"
    if "'\\t'" in said:
        return "there is a tab here; indent with spaces"
    if said == "mapping values are not allowed here":
        return "a colon does not belong here; indent as the lines above, and put text that has a colon in quotes"
    if said == "expected <block end>, but found '<scalar>'":
        return "there is text after a closing quote; put text that has quotes in the other kind of quotes"
    if said.startswith("expected <block end>"):
        return "this line is indented differently from the lines above that it belongs to"
    if said.startswith("expected '<document start>'"):
        return "another document begins here, and a file holds only one"
    return _QUOTED.sub(_unquoted, said)


def _unquoted(match: "re.Match[str]") -> str:
    """Leave PyYAML's own words and single characters; of the file nothing is repeated."""
    said = match[2]
    return match[0] if len(said) == 1 or said == "\\t" or said.startswith("<") else "that stands there"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NotFound(f"{path} is not there", fix="Run: penstock init") from None
    except IsADirectoryError:
        raise BadInput(f"{path} is a directory, and a YAML file belongs there") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not UTF-8 text", fix="Save it in the encoding UTF-8") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None


def _marks(node: yaml.Node, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Mark]]:
    """Yield the place of each key; of one that comes twice, as that of a value and of its key, the last counts."""
    yield path, _mark(node.start_mark)
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            yield from _marks(value_node, (*path, key_node.value))
            yield (*path, key_node.value), _mark(key_node.start_mark)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _marks(item, (*path, index))


def _mark(mark: Any) -> Mark:
    return mark.line + 1, mark.column + 1


def _keys(models: Iterable[type[BaseModel]]) -> set[str]:
    return {field.alias or name for model in models for name, field in model.model_fields.items()}


def _parts_of(models: Iterable[type[BaseModel]], key: str | int | None = None) -> set[type[BaseModel]]:
    """Return the models that a key of these models holds, or any key of them."""
    return {
        part
        for model in models
        for name, field in model.model_fields.items()
        if key is None or key == (field.alias or name)
        for part in _annotation_parts(field.annotation)
        if _is_model(part)
    }


def _models_at(model: type[BaseModel], place: KeyPath) -> set[type[BaseModel]]:
    """Return the models whose keys belong at a place of the document; pydantic's places have tags of unions, too."""
    models = {model}
    for part in place:
        tagged = {
            each for each in models if part in (each.__name__, getattr(each.model_fields.get("type"), "default", ""))
        }
        models = _parts_of(models, part) or tagged or models
    return models


def _all_models(model: type[BaseModel]) -> set[type[BaseModel]]:
    """Return a model and all that are reachable from it."""
    found, queue = {model}, {model}
    while queue := _parts_of(queue) - found:
        found |= queue
    return found


def _example(model: type[BaseModel], keys: KeyPath) -> str:
    """Return how the value of a key, or of an item of its list, is written; empty if its field has no example."""
    *place, key = keys or ("",)
    if is_item := isinstance(key, int):
        *place, key = place or ("",)
    fields = [
        field
        for each in _models_at(model, tuple(place))
        for name, field in each.model_fields.items()
        if key in (name, field.alias)
    ]
    example = next((each for field in fields for each in field.examples or []), None)
    if isinstance(example, str):
        return f'"{example}"'
    shown = example[0] if is_item and example else example
    return yaml.safe_dump(shown, default_flow_style=True, sort_keys=False, width=1000).strip() if shown else ""


def _annotation_parts(annotation: Any) -> list[Any]:
    inner = getattr(annotation, "__args__", ())
    return [annotation, *(part for argument in inner for part in _annotation_parts(argument))]


def _is_model(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, BaseModel)


def _keys_of(problem: Any, marks: Mapping[KeyPath, Mark]) -> KeyPath:
    location = tuple(problem["loc"])
    # pydantic puts a union's tag into the location; drop the parts that are not in the document.
    keys: KeyPath = ()
    for part in location:
        if (*keys, part) in marks:
            keys = (*keys, part)
    if problem["type"] == "missing":
        keys = (*keys, location[-1])
    elif problem["type"] == _CONTRADICTION:
        keys = location
    return keys


def in_words_of_keys(model: type[BaseModel], problem: Any) -> str:
    """Return what is wrong, and which of the model's keys is meant by one that it does not know."""
    if problem["type"] == "missing":
        return "this key is required"
    if problem["type"] in _WRONG_SHAPES:
        words, example = in_words(problem), _example(model, tuple(problem["loc"]))
        return f"{words}, such as {example}" if example and "did you mean" not in words else words
    if problem["type"] != "extra_forbidden":
        return in_words(problem)
    *place, typed = problem["loc"]
    here, everywhere = _models_at(model, tuple(place)), _keys(_all_models(model))
    what = "this key does not belong here" if typed in everywhere else "this key is not known"
    if not place and (key := _CALLED_HERE.get(str(typed))) in _keys(here):
        return f"{what}; it is called '{key}' here"
    # At the top, and in a Python file, whose errors have no place, a typo may be one in the key of a part.
    meant = nearest(str(typed), _keys(here)) or (None if place else nearest(str(typed), everywhere))
    if meant and meant != typed:
        return f"{what}; did you mean '{meant}'?"
    # Another part's key would be no help inside of one that is known; its own are.
    return what + (f"; known here: {', '.join(sorted(_keys(here)))}" if place and len(here) == 1 else "")


def contradiction(text: str, *keys: str | int) -> ValidationError:
    """Make what a validator raises about a key inside of what it looks at, there or missing."""
    problem = PydanticCustomError(_CONTRADICTION, "{text}", {"text": text})
    return ValidationError.from_exception_data(
        _CONTRADICTION, [InitErrorDetails(type=problem, loc=keys, input=None)], hide_input=True
    )


def placed(path: Path, marks: Mapping[KeyPath, Mark], keys: KeyPath, text: str) -> str:
    """Write a complaint with file, line, column and key path; of a key that is not there, with its parent's place."""
    line, column = _nearest_mark(marks, keys)
    shown = ".".join(map(str, keys)) or "the file"
    return f"{path}:{line}:{column}: {shown}: {text}"


def in_order(path: Path, marks: Mapping[KeyPath, Mark], found: Iterable[tuple[KeyPath, str]]) -> list[str]:
    """Write complaints as `placed` does, each once, from the top of the file to its end."""
    by_place = sorted(found, key=lambda each: _nearest_mark(marks, each[0]))
    return list(dict.fromkeys(placed(path, marks, keys, text) for keys, text in by_place))


def _nearest_mark(marks: Mapping[KeyPath, Mark], keys: KeyPath) -> Mark:
    known = next((keys[:length] for length in range(len(keys), -1, -1) if keys[:length] in marks), ())
    return marks.get(known, (1, 1))


def load(path: Path, model: type[Model]) -> Model:
    """Read `path` into `model`; raise `BadInput` with one line per problem, each with its place."""
    return load_with_marks(path, model)[0]


def load_with_marks(path: Path, model: type[Model], text: str | None = None) -> tuple[Model, dict[KeyPath, Mark]]:
    """As `load`; also return the place of every key, for checks that look at the document as a whole.

    With `text`, that is read as if it were what the file holds.
    """
    text = _read(path) if text is None else text
    try:
        loader = _PlainLoader(text)  # a subclass of SafeLoader: no YAML tag can build a Python object
        node = loader.get_single_node()
        data = loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        line, column = _mark(error.problem_mark) if error.problem_mark else (1, 1)
        problem = error.problem if isinstance(error, _NotPlainError) else _in_words(error)
        raise BadInput(f"{path}:{line}:{column}: not valid YAML: {problem}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise BadInput(f"{path}: not valid YAML: {str(error).splitlines()[0]}") from None
    marks = dict(_marks(node)) if node is not None else {}
    try:
        return model.model_validate(data if data is not None else {}, context={"base": path.absolute().parent}), marks
    except ValidationError as error:
        problems = error.errors(include_url=False)
        found = [(_keys_of(each, marks), in_words_of_keys(model, each)) for each in problems]
        raise Mistakes("\n".join(map(one_line, in_order(path, marks, found)))) from None
