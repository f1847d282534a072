"""The reference of pipeline files: docs/pipeline-file.md and their JSON Schema."""

import json
import sys
from string import Template
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from penstock.pipeline.expectation import Expectation
from penstock.pipeline.metrics import Metrics
from penstock.pipeline.rate import Rate
from penstock.pipeline.realtime import Realtime
from penstock.pipeline.spec import Batch, DeadLetters, Decode, PipelineSpec, Retry, SinkSpec, Source, Step
from penstock.pipeline.template import template
from penstock.schemas.registry import Registry
from penstock.sinks.compaction import Compact, CompactFiles
from penstock.sinks.iceberg_catalog import Catalog
from penstock.sinks.kafka_encoding import Encode
from penstock.sinks.postgres_server import Server
from penstock.sources.delta import Watermark
from penstock.steps.handlers import Batcher, OnFailure

from reference.tables import keys, sentence, tidy

Model = type[BaseModel]


def _built_in(family: Any) -> tuple[Model, ...]:
    """Return the models of a union but its last, which is the base of what packages add."""
    *models, _ = get_args(get_args(family)[0])
    return tuple(models)


COMPONENTS: dict[str, tuple[Model, ...]] = {
    "Source": _built_in(Source),
    "Decoder": _built_in(Decode),
    "Step": get_args(Step),
    "Sink": _built_in(SinkSpec),
}
PARTS: tuple[Model, ...] = (
    Watermark,
    Registry,
    Batcher,
    OnFailure,
    Expectation,
    Catalog,
    Server,
    Encode,
    Compact,
    CompactFiles,
    Batch,
    DeadLetters,
    Rate,
    Realtime,
    Metrics,
    Retry,
)
"""Models that are no component; each has a place of its own on the page."""

TEXT = Template("""\
# Pipeline files

<!-- Written by scripts/generate_reference.py from the models. Change those, and run it again. -->

A pipeline is one file, YAML or Python, with the same model behind both. [Pipelines](pipelines.md) explains the parts
one by one, [delivery](delivery.md) what is promised. `penstock pipeline new NAME` writes a file that runs, with
comments:

```yaml
$template```

An unknown key, a key that occurs twice, a YAML alias and a number without its unit are refused, with the file, the line
and the key. Paths in a YAML file count from the file's own folder. A `-` in the column Default means: nothing, or what
the description or the part's own table says.

`penstock pipeline new` names the JSON Schema in the first line, so that an editor with a YAML language server completes
keys and checks the file while you type.

## The pipeline

$pipeline

## Sources

Without a `type` a source is `kafka`.

$source

### Watermark

$watermark

## Decoders

The `type` is required. Whatever the decoder, the record itself travels along, byte for byte.

$decoder

### Registry

$registry

## Steps

A step has no `type`: its first key says what it is.

$step

### Batcher

$batcher

### OnFailure

$on_failure

## Expectations

### Expectation

$expectation

## Sinks

The `type` is required. Two sinks of one type need a `name` each.

$sink

### Catalog

$catalog

### Server

$server

### Encode

$encode

### Compact

$compact

### CompactFiles

$compact_files

## The rest

### Batch

$batch

### DeadLetters

$dead_letters

### Rate

$rate

### Realtime

$realtime

### Metrics

$metrics

### Retry

$retry

Durations: `ms`, `s`, `m` (minutes), `h`, `d`, `w`. Sizes: `B`, `KB`, `MB`, `GB`, `TB` are powers of 1000, `KiB`, `MiB`,
`GiB`, `TiB` powers of 1024.
""")


def _yaml_name(model: Model) -> str:
    """Return the word that chooses a component in a file: its type, or a step's first key."""
    field = model.model_fields.get("type")
    return str(field.default) if field is not None else next(iter(model.model_fields))


TITLES: dict[Model, str] = {
    **{model: f"{kind} {_yaml_name(model)}" for kind, models in COMPONENTS.items() for model in models},
    **{model: model.__name__ for model in PARTS},
}


def file_schema() -> dict[str, Any]:
    """Return the JSON Schema of a pipeline file; definitions are called as the headings on the page."""
    models: list[Model] = [PipelineSpec, *TITLES]
    references, made = models_json_schema([(model, "validation") for model in models])
    names = {references[model, "validation"]["$ref"]: title for model, title in TITLES.items()}
    if strange := made["$defs"].keys() - {name.rpartition("/")[2] for name in names} - {"PipelineSpec"}:
        raise SystemExit(f"the page has no place for: {', '.join(sorted(strange))}")
    text = json.dumps(made["$defs"])
    for reference, title in names.items():
        text = text.replace(f'"{reference}"', f'"#/$defs/{_definition(title)}"')
    old = json.loads(text)
    parts = {_definition(title): old[name.rpartition("/")[2]] for name, title in names.items()}
    for name, part in parts.items():
        part["title"] = name
        # A source without a type is Kafka's; every other component is known by it.
        if "type" in part["properties"] and name != "SourceKafka":
            part["required"] = ["type", *part.get("required", [])]
    whole = {**old["PipelineSpec"], "$defs": parts}
    tidy(whole)
    return {"$schema": GenerateJsonSchema.schema_dialect, **whole, "title": "A pipeline of Penstock"}


def _definition(title: str) -> str:
    return "".join(word[0].upper() + word[1:] for word in title.split())


def _heading(definition: str) -> str:
    return next(title for title in TITLES.values() if _definition(title) == definition)


def _guarantee(model: Model) -> str:
    """Take the promise from the component's own file: every paragraph from the word on."""
    _, word, promise = (sys.modules[model.__module__].__doc__ or "").partition("Guarantee:")
    if not word:
        raise SystemExit(f"the docstring of {model.__module__} states no guarantee")
    first, *others = (sentence(part) for part in promise.split("\n\n"))
    return "\n\n".join([f"**Guarantee:** {first}", *others])


def _part(model: Model, schema: dict[str, Any]) -> str:
    part = schema if model is PipelineSpec else schema["$defs"][_definition(TITLES[model])]
    return f"{sentence(model.__doc__)}\n\n{keys(model, part, _heading)}"


def _component(model: Model, schema: dict[str, Any]) -> str:
    about, listed = _part(model, schema).split("\n\n", 1)
    return f"### {TITLES[model]}\n\n{about}\n\n{_guarantee(model)}\n\n{listed}"


def page(schema: dict[str, Any]) -> str:
    """Write the reference of pipeline files."""
    listed = {
        kind.lower(): "\n\n".join(_component(model, schema) for model in models) for kind, models in COMPONENTS.items()
    }
    return TEXT.substitute(
        template=template("orders", "orders", ".penstock/schemas/pipeline.json"),
        pipeline=_part(PipelineSpec, schema),
        registry=_part(Registry, schema),
        watermark=_part(Watermark, schema),
        expectation=_part(Expectation, schema),
        catalog=_part(Catalog, schema),
        server=_part(Server, schema),
        encode=_part(Encode, schema),
        compact=_part(Compact, schema),
        compact_files=_part(CompactFiles, schema),
        batch=_part(Batch, schema),
        batcher=_part(Batcher, schema),
        on_failure=_part(OnFailure, schema),
        dead_letters=_part(DeadLetters, schema),
        rate=_part(Rate, schema),
        realtime=_part(Realtime, schema),
        metrics=_part(Metrics, schema),
        retry=_part(Retry, schema),
        **listed,
    )
