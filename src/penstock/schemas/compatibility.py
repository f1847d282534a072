"""What a new schema would break, for whom, and at which field. The registry decides; this explains why.

BACKWARD protects those who read with the new schema what was written with an older one, FORWARD those who still read
with an older schema what is written with the new one, FULL both. Without TRANSITIVE only the latest version counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.schemas.avro import AvroSchema
from penstock.schemas.avro_resolution import avro_breaks
from penstock.schemas.client import RegistryClient
from penstock.schemas.formats import Level
from penstock.schemas.json_changes import json_breaks
from penstock.schemas.json_schema import JsonSchema
from penstock.schemas.protobuf import ProtobufSchema
from penstock.schemas.protobuf_changes import protobuf_breaks
from penstock.schemas.schema import Schema
from penstock.schemas.serializer import AnySchema, opened

Break = tuple[str, str]
"""A field, and what is wrong with it."""


@dataclass(frozen=True)
class Incompatibility:
    """Somebody who could not read any more."""

    version: int
    """The version that the new schema does not get along with."""
    whom: str
    field: str
    why: str


@dataclass(frozen=True)
class Verdict:
    """Whether a subject would take a schema, and what it would break."""

    subject: str
    level: Level
    is_compatible: bool
    breakages: tuple[Incompatibility, ...]
    said: tuple[str, ...]
    """What the registry itself says."""


def check(client: RegistryClient, subject: str, schema: Schema) -> Verdict:
    """Return what registering a schema under a subject would do; nothing is registered."""
    new = opened(client, schema)
    level, _ = client.compatibility(subject)
    versions = client.versions(subject)
    compared = versions if level.endswith("TRANSITIVE") else versions[-1:]
    found: list[Incompatibility] = []
    for version in compared if level != "NONE" else ():
        old = opened(client, client.version(subject, version).definition)
        found += _breakages(level, version, old, new)
    is_compatible, said = client.is_compatible(subject, schema)
    return Verdict(subject, level, is_compatible, tuple(found), tuple(said))


def _breakages(level: Level, version: int, old: AnySchema, new: AnySchema) -> Iterator[Incompatibility]:
    if level.startswith(("BACKWARD", "FULL")):
        whom = f"those who read records of version {version} with the new schema"
        yield from (Incompatibility(version, whom, field, why) for field, why in breaks(new, old))
    if level.startswith(("FORWARD", "FULL")):
        whom = f"those who read new records with version {version}"
        yield from (Incompatibility(version, whom, field, why) for field, why in breaks(old, new))


def breaks(reader: AnySchema, writer: AnySchema) -> list[Break]:
    """Return what keeps whoever reads with one schema from reading what was written with the other."""
    if isinstance(reader, AvroSchema) and isinstance(writer, AvroSchema):
        return avro_breaks(reader, writer)
    if isinstance(reader, ProtobufSchema) and isinstance(writer, ProtobufSchema):
        return protobuf_breaks(reader, writer)
    if isinstance(reader, JsonSchema) and isinstance(writer, JsonSchema):
        return json_breaks(reader, writer)
    return [("the schema", "is written in another format")]
