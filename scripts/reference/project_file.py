"""The reference of penstock.yaml: docs/project-file.md and its JSON Schema."""

import re
from pathlib import Path
from string import Template
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from penstock.config import settings
from penstock.config.pipelines import ProjectPipeline
from penstock.config.project import FILE_NAME, TEMPLATE, ExternalCluster, LineageReports, LocalCluster, Project
from penstock.config.services import MODELS, RegistryDatabase, RegistryService, Services
from penstock.kafka.connection import TUNABLE_SETTINGS
from penstock.kafka.security import Security
from penstock.kafka.topic_spec import TopicSpec
from penstock.schemas.registry import Registry
from penstock.secret import Secret

from reference.tables import keys, sentence, table, tidy

SOURCES = Path(__file__).parents[2] / "src"
MECHANISMS: tuple[type[BaseModel], ...] = get_args(get_args(Security)[0])
ENVIRONMENT = {
    "PENSTOCK_BOOTSTRAP_SERVERS": "`host:port` of an external cluster, several separated by commas.",
    "PENSTOCK_USER": "User of a secure local cluster to act as; its administrator if unset.",
    "PENSTOCK_PROJECT": "Path of the project file.",
    "PENSTOCK_HOME": "Folder for the local cluster: data, logs, secrets.",
    "PENSTOCK_CACHE": "Folder of the jars, shared by all projects; `penstock` in the user's cache folder if unset.",
    "PENSTOCK_LINEAGE_STORE": "The lineage store: an SQLite file, or `postgresql://USER@HOST:PORT/DATABASE`.",
    "PENSTOCK_LINEAGE_PASSWORD_FROM": "Where the password of its PostgreSQL is: `env:NAME` or `file:PATH`.",
    "PENSTOCK_LINEAGE_CA_FILE": "PEM file of the CA of its PostgreSQL's server.",
    "PENSTOCK_IVY_SETTINGS": "An `ivysettings.xml`, to fetch the jars from a mirror.",
    "PENSTOCK_LINEAGE_URL": "Address of a lineage service that the commands ask instead of a store.",
    "PENSTOCK_LINEAGE_TOKEN": "A personal token for that service, unless `--token-file` names a file.",
    "PENSTOCK_GATEWAY_TOKEN": "What clients have to show to `penstock gateway`, unless `--token-file` names a file.",
    "PENSTOCK_REGISTRY_URL": "Address of the schema registry that the commands ask.",
    "PENSTOCK_REGISTRY_USERNAME": "User name for that registry.",
    "PENSTOCK_REGISTRY_PASSWORD": "That user's password.",
    "PENSTOCK_REGISTRY_TOKEN": "Bearer token for that registry, instead of user name and password.",
    "PENSTOCK_REGISTRY_CA_FILE": "PEM file of the CA of that registry's certificate.",
    "PENSTOCK_REGISTRY_CERTIFICATE_FILE": "PEM file of the certificate that this client shows to it.",
    "PENSTOCK_REGISTRY_KEY_FILE": "PEM file of that certificate's private key.",
    "PENSTOCK_REGISTRY_KEY_PASSWORD": "Password of that private key.",
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

One file for the cluster and the topics of a project, and all that runs around them. `penstock init` writes it, with
comments:

```yaml
$template```

Every key may be left out; without a file the defaults hold. An unknown key, a key that
occurs twice, a YAML alias and a number without its unit are refused, with the file, the line and the key. Paths
in the file count from the file's own folder. A `-` in the column Default means: left to Kafka, to the system,
or to what the description says.

`penstock init` names the JSON Schema in the first line, so that an editor with a YAML language server completes keys
and checks the file while you type.

## Which setting wins

$wins

The options of `penstock up` (`--nodes`, `--port`, ...) are options on the command line, too. Naming other servers
by `--bootstrap` or `PENSTOCK_BOOTSTRAP_SERVERS` changes the address alone: the `security` and the
`client_settings` of an external cluster in the file stay in force. The `PENSTOCK_SECURITY_...` variables replace its
`security` as a whole, and a relative path in them counts from the working folder.

## Environment variables

An empty variable counts as unset.

$environment

## The file

$file

## LocalCluster

$local

## ExternalCluster

$external

`client_settings` takes these names of librdkafka and no others: $tunable.

In Python the same fields, without `type`, make a `Connection`; see [clients](clients.md).

## Security

The `type` decides which keys there are. More in [security](security.md).

$security

## Registry

$registry

More in [schemas](schemas.md).

## LineageReports

$lineage

More in [lineage](lineage.md).

## Services

$services

### RegistryService

$own_registry

### RegistryDatabase

$database

$other_services

More in [services](services.md) and [the whole system](system.md).

## ProjectPipeline

$pipeline

A name alone stands for `NAME.yaml`, and `NAME: FILE` for a pipeline that needs nothing.

## TopicSpec

$topic

Durations: `ms`, `s`, `m` (minutes), `h`, `d`, `w`, or `forever`. Sizes: `B`, `KB`, `MB`, `GB`, `TB` are powers of
1000, `KiB`, `MiB`, `GiB`, `TiB` powers of 1024, or `unlimited`.
""")


def file_schema() -> dict[str, Any]:
    """Return the JSON Schema of penstock.yaml."""
    made = Project.model_json_schema()
    for name, model in made["$defs"].items():
        # A cluster's type can be told from its keys; without a mechanism's tag nobody knows what is meant.
        if "const" in model["properties"].get("type", {}) and not name.endswith("Cluster"):
            model["required"] = ["type", *model.get("required", [])]
    made["$defs"]["ExternalCluster"]["properties"]["client_settings"]["propertyNames"] = {
        "enum": sorted(TUNABLE_SETTINGS)
    }
    # A pipeline may be a file, or a name alone.
    pipelines = made["properties"]["pipelines"]
    pipelines["additionalProperties"] = {
        "anyOf": [pipelines["additionalProperties"], {"type": "string"}, {"type": "null"}]
    }
    tidy(made)
    return {"$schema": GenerateJsonSchema.schema_dialect, **made, "title": FILE_NAME}


def _keys(model: type[BaseModel], schema: dict[str, Any]) -> str:
    part = schema if model is Project else schema["$defs"][model.__name__]
    return f"{sentence(model.__doc__)}\n\n{keys(model, part, str)}"


def _which_wins() -> str:
    """Take the order from the one place that decides it."""
    _, order = re.split("(?=From strongest)", (settings.__doc__ or "").strip(), maxsplit=1)
    return re.sub(r"(PENSTOCK_[A-Z_]+(?:<FIELD>)?)", r"`\1`", order)


def _environment() -> str:
    """List the variables; end with an error if the code knows others."""
    code = "".join(file.read_text(encoding="utf-8") for file in sorted(SOURCES.rglob("*.py")))
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
        meaning = f"`{field}` in the security of the external cluster{of}{itself}."
        rows.append((f"`{SECURITY_PREFIX}{field.upper()}`", meaning))
    return table("| Variable | Meaning |", rows)


def page(schema: dict[str, Any]) -> str:
    """Write the reference of the project file."""
    return TEXT.substitute(
        template=TEMPLATE,
        wins=_which_wins(),
        environment=_environment(),
        file=_keys(Project, schema),
        local=_keys(LocalCluster, schema),
        external=_keys(ExternalCluster, schema),
        tunable=", ".join(f"`{name}`" for name in sorted(TUNABLE_SETTINGS)),
        security="\n\n".join(f"### {model.__name__}\n\n{_keys(model, schema)}" for model in MECHANISMS),
        registry=_keys(Registry, schema),
        lineage=_keys(LineageReports, schema),
        services=_keys(Services, schema),
        own_registry=_keys(RegistryService, schema),
        database=_keys(RegistryDatabase, schema),
        other_services="\n\n".join(
            f"### {model.__name__}\n\n{_keys(model, schema)}"
            for model in MODELS.values()
            if model is not RegistryService
        ),
        pipeline=_keys(ProjectPipeline, schema),
        topic=_keys(TopicSpec, schema),
    )
