"""Write docs/project-file.md and docs/penstock.schema.json from the models behind penstock.yaml.

Run it after changing a model, a setting or an environment variable. With `--check` it writes nothing and ends
with exit code 1 if a file is stale.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from penstock import settings
from penstock.kafka.connection import TUNABLE_SETTINGS
from penstock.kafka.security import Security
from penstock.kafka.topic_spec import TopicSpec
from penstock.project import FILE_NAME, TEMPLATE, LocalCluster, OutsideCluster, Project
from penstock.secret import Secret

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/project-file.md"
SCHEMA = ROOT / "docs/penstock.schema.json"
MECHANISMS: tuple[type[BaseModel], ...] = get_args(get_args(Security)[0])
ENVIRONMENT = {
    "PENSTOCK_BOOTSTRAP_SERVERS": "`host:port` of an outside cluster, several separated by commas.",
    "PENSTOCK_USER": "User of a secure local cluster to act as; its administrator if unset.",
    "PENSTOCK_PROJECT": "Path of the project file.",
    "PENSTOCK_HOME": "Folder for the local cluster: data, logs, secrets.",
    "PENSTOCK_CACHE": "Folder of the jars, shared by all projects; `penstock` in the user's cache folder if unset.",
    "PENSTOCK_IVY_SETTINGS": "An `ivysettings.xml`, to fetch the jars from a mirror.",
    "PENSTOCK_CRASH_AT": "For tests: the point of a batch at which a driver dies, as `kill -9` would end it.",
    "PENSTOCK_CRASH_AFTER": "For tests: how often that point is passed first.",
    "PENSTOCK_DEBUG": "Any value: show the traceback of a defect in Penstock.",
    "JAVA_HOME": "Where Java 17 or newer is; the `java` on the `PATH` if unset.",
    "XDG_CACHE_HOME": "The user's cache folder; `~/.cache` if unset.",
}
SECURITY_PREFIX = "PENSTOCK_SECURITY_"

TEXT = Template("""\
# penstock.yaml

<!-- Written by scripts/generate_reference.py from the models. Change those, and run it again. -->

One file for the cluster and the topics of a project. `penstock init` writes it, with comments:

```yaml
$template```

`cluster` and `topics` may each be left out; without a file the defaults hold. An unknown key, a key that
stands twice, a YAML alias and a number without its unit are refused, with the file, the line and the key. Paths
in the file count from the file's own folder. A `-` in the column Default means: left to Kafka, to the system,
or to what the description says.

An editor that understands JSON Schema can check the file while you type: [penstock.schema.json](penstock.schema.json).

## Which setting wins

$wins

The options of `penstock up` (`--nodes`, `--port`, ...) are options on the command line, too. Naming other servers
by `--bootstrap` or `PENSTOCK_BOOTSTRAP_SERVERS` changes the address alone: the `security` and the
`client_settings` of an outside cluster in the file stay in force. The `PENSTOCK_SECURITY_...` variables replace its
`security` as a whole, and a relative path in them counts from the working folder.

## Environment variables

An empty variable counts as unset.

$environment

## The file

$file

## LocalCluster

$local

## OutsideCluster

$outside

`client_settings` takes these names of librdkafka and no others: $tunable.

In Python the same fields, without `type`, make a `Connection`; see [clients](clients.md).

## Security

The `type` decides which keys there are. More in [security](security.md).

$security

## TopicSpec

$topic

Durations: `ms`, `s`, `m` (minutes), `h`, `d`, `w`, or `forever`. Sizes: `B`, `KB`, `MB`, `GB`, `TB` are powers of
1000, `KiB`, `MiB`, `GiB`, `TiB` powers of 1024, or `unlimited`.
""")


def file_schema() -> dict[str, Any]:
    """Give the JSON Schema of penstock.yaml."""
    made = Project.model_json_schema()
    for name, model in made["$defs"].items():
        # A cluster's type can be told from its keys; without a mechanism's tag nobody knows what is meant.
        if "const" in model["properties"].get("type", {}) and not name.endswith("Cluster"):
            model["required"] = ["type", *model.get("required", [])]
    made["$defs"]["OutsideCluster"]["properties"]["client_settings"]["propertyNames"] = {
        "enum": sorted(TUNABLE_SETTINGS)
    }
    _tidy(made)
    return {"$schema": GenerateJsonSchema.schema_dialect, **made, "title": FILE_NAME}


def _tidy(node: Any) -> None:
    """Drop `ge`, which is no JSON Schema, and defaults that only say "left out"."""
    if isinstance(node, dict):
        node.pop("ge", None)
        if "default" in node and node["default"] is None:
            del node["default"]
        for inner in node.values():
            _tidy(inner)
    elif isinstance(node, list):
        for inner in node:
            _tidy(inner)


def _kind(schema: dict[str, Any]) -> str:
    """Say in words what may stand here."""
    choices = [part for part in schema.get("anyOf", schema.get("oneOf", [])) if part.get("type") != "null"]
    if "$comment" in schema:
        found = str(schema["$comment"])
    elif choices:
        found = " or ".join(_kind(part) for part in choices)
    elif "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        found = f"[{name}](#{name.lower()})"
    elif "const" in schema or "enum" in schema:
        found = " or ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    elif schema["type"] == "object":
        found = f"mapping of name to {_kind(schema['additionalProperties'])}"
    elif "minimum" in schema:
        found = f"whole number, {schema['minimum']} to {schema['maximum']}"
    elif str(schema.get("pattern", "")).startswith("^(env|file)"):
        found = "`env:NAME` or `file:PATH`"
    else:
        words = {"string": "text", "integer": "whole number", "boolean": "true or false", "path": "path"}
        found = words[schema.get("format", schema["type"])]
    return found


def _table(header: str, rows: Sequence[tuple[str, ...]]) -> str:
    columns = header.count("|") - 1
    return "\n".join([header, "|---" * columns + "|", *("| " + " | ".join(row) + " |" for row in rows)])


def _keys(model: type[BaseModel], schema: dict[str, Any]) -> str:
    """Write a model as its sentence and a table: the tag first, then what is required, then the rest."""
    part = schema if model is Project else schema["$defs"][model.__name__]
    required = part.get("required", [])
    rows = []
    for name, field in sorted(part["properties"].items(), key=lambda it: (it[0] != "type", it[0] not in required)):
        about = model.model_fields[name]
        value = about.get_default(call_default_factory=True)
        default = "required" if name in required else f"`{getattr(value, 'type', value)}`" if value else "-"
        rows.append((f"`{name}`", _kind(field), default, str(about.description)))
    table = _table("| Key | What it may be | Default | Meaning |", rows)
    return f"{' '.join((model.__doc__ or '').split())}\n\n{table}"


def _which_wins() -> str:
    """Take the order from the one place that decides it."""
    _, order = re.split("(?=From strongest)", (settings.__doc__ or "").strip(), maxsplit=1)
    return re.sub(r"(PENSTOCK_[A-Z_]+(?:<FIELD>)?)", r"`\1`", order)


def _environment() -> str:
    """List the variables; end with an error if the code knows others."""
    code = "".join(file.read_text(encoding="utf-8") for file in sorted((ROOT / "src").rglob("*.py")))
    used = {name for name in re.findall(r"\bPENSTOCK_[A-Z_]*[A-Z]\b", code) if "_SECURITY" not in name}
    if odd := used ^ {name for name in ENVIRONMENT if name.startswith("PENSTOCK_")}:
        raise SystemExit(f"ENVIRONMENT in {Path(__file__).name} does not fit the code: {', '.join(sorted(odd))}")
    users: dict[str, list[str]] = {}
    secrets = set()
    for mechanism in MECHANISMS:
        for field, about in mechanism.model_fields.items():
            users.setdefault(field, []).append(f"`{mechanism.model_fields['type'].default}`")
            if Secret in (about.annotation, *get_args(about.annotation)):
                secrets.add(field)
    rows = [(f"`{name}`", meaning) for name, meaning in ENVIRONMENT.items()]
    for field, kinds in users.items():
        of = "" if len(kinds) == len(MECHANISMS) else f" (type {', '.join(kinds)})"
        itself = "; the variable holds the secret itself" if field in secrets else ""
        meaning = f"`{field}` in the security of the outside cluster{of}{itself}."
        rows.append((f"`{SECURITY_PREFIX}{field.upper()}`", meaning))
    return _table("| Variable | Meaning |", rows)


def page(schema: dict[str, Any]) -> str:
    """Write the reference of the project file."""
    return TEXT.substitute(
        template=TEMPLATE,
        wins=_which_wins(),
        environment=_environment(),
        file=_keys(Project, schema),
        local=_keys(LocalCluster, schema),
        outside=_keys(OutsideCluster, schema),
        tunable=", ".join(f"`{name}`" for name in sorted(TUNABLE_SETTINGS)),
        security="\n\n".join(f"### {model.__name__}\n\n{_keys(model, schema)}" for model in MECHANISMS),
        topic=_keys(TopicSpec, schema),
    )


def main() -> int:
    """Write the files, or look whether they are as they should be."""
    parser = argparse.ArgumentParser(description="Write the reference of the project file.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a file is stale")
    only_check = parser.parse_args().check
    schema = file_schema()
    wanted = {PAGE: page(schema), SCHEMA: json.dumps(schema, indent=2) + "\n"}
    stale = [path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        name = path.relative_to(ROOT)
        if only_check:
            print(f"{name} is stale. Run: .venv/bin/python scripts/{Path(__file__).name}", file=sys.stderr)
        else:
            path.write_text(wanted[path], encoding="utf-8")
            print(f"{name} written")
    return 1 if only_check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
