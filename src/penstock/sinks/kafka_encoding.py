"""Values and keys of a kafka sink by schemas of a registry: those that it makes of its columns, or those of files."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import orjson
import pyarrow as pa
from pydantic import BaseModel, Field, model_validator

from penstock.errors import BadInput, Conflict
from penstock.schemas.client import client_of
from penstock.schemas.protobuf import ProtobufSchema
from penstock.schemas.registry import NamedRegistry, Registry, project_registry
from penstock.schemas.schema import Schema
from penstock.schemas.serializer import Serializer, opened, read_schema
from penstock.schemas.wire import framed
from penstock.secret import PathFromFile
from penstock.sinks.rows import plain_rows

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIMPLE: dict[pa.DataType, Any] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.timestamp("us", tz="UTC"): {"type": "long", "logicalType": "timestamp-micros"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
}


class Encode(BaseModel, frozen=True, extra="forbid"):
    """Values, and keys if you like, by schemas of a registry, with their ids in front."""

    registry: NamedRegistry = Field(
        default_factory=project_registry,
        description="The schema registry: its address, or the address and a login; that of the project if left out.",
    )
    schema_file: PathFromFile | None = Field(
        None, description="Schema to write with: .avsc, .proto or .json; Avro that is made of the columns if left out."
    )
    subject: str | None = Field(None, min_length=1, description="Subject of the schema; `TOPIC-value` if left out.")
    register_schema: bool = Field(
        default=True, description="Register the schema when the pipeline starts; if not, it must be there."
    )
    keys: bool = Field(
        default=False,
        description="Keys by a schema, too, whose subject is `TOPIC-key`: those of the column that `key` names.",
    )
    key_schema_file: PathFromFile | None = Field(
        None, description="Schema to write keys with; Avro that is made of the column's type if left out."
    )

    @model_validator(mode="after")
    def _a_schema_of_keys_is_for_keys(self) -> Self:
        if self.key_schema_file is not None and not self.keys:
            raise ValueError("`key_schema_file` belongs to `keys: true`")
        return self


@dataclass(frozen=True)
class KnownSchema:
    """A schema that the registry knows."""

    registry: Registry
    schema: Schema
    schema_id: int

    def encoded(self, rows: pa.RecordBatch, column: str | None = None) -> list[bytes | None]:
        """Return rows, or the values of one column, as records have them; raise `ValueError` if one does not fit."""
        known = opened(client_of(self.registry), self.schema)
        if isinstance(known, ProtobufSchema):
            messages = rows.to_struct_array() if column is None else rows.column(column)
            _require_room_for_nulls(known.descriptor((0,)), messages)
        listed: Iterable[dict[str, Any]]
        listed = rows.to_pylist(maps_as_pydicts="strict") if self.schema.format == "AVRO" else plain_rows(rows)
        values = listed if column is None else (row[column] for row in listed)
        return [None if each is None else framed(self.schema_id, known.encode(each)) for each in values]


def _require_room_for_nulls(message: Any, values: pa.Array, where: str = "") -> None:
    """Raise for a null that Protobuf has no word for, at any depth: it would be read as 0, or as an empty text."""
    while pa.types.is_list(values.type):
        values = values.flatten()
    if message is None or not pa.types.is_struct(values.type):
        return
    values = values.drop_null()
    fields = {name: each for each in message.fields for name in (each.json_name, each.name)}
    for part, column in zip(values.type, values.flatten(), strict=True):
        field = fields.get(part.name)
        if field is None:
            continue
        if column.null_count and not field.has_presence and not field.is_repeated:
            name = f"{where}{part.name}"
            raise ValueError(f"{name}: null, which the field could not tell from a value: make it `optional`")
        _require_room_for_nulls(field.message_type, column, f"{where}{part.name}.")


@dataclass(frozen=True)
class Encoding:
    """The schemas of a sink, as they are sent to the tasks."""

    value: KnownSchema
    key: KnownSchema | None = None

    def values(self, rows: pa.RecordBatch) -> list[bytes | None]:
        """Return the rows as values; raise `ValueError` if one does not fit the schema."""
        return self.value.encoded(rows)


def encoding(encode: Encode, topic: str, columns: pa.Schema, key: str | None = None) -> Encoding:
    """Register the schemas of a sink, or find them; raise `Conflict` if the registry does not take one."""
    value = avro_of(topic, columns) if encode.schema_file is None else read_schema(encode.schema_file)
    known = _known(encode, value, topic, encode.subject or f"{topic}-value")
    if not encode.keys or key is None:
        return Encoding(known)
    file, kind = encode.key_schema_file, columns.field(key).type
    schema = Schema(text=_text(_type(f"{_name(topic)}_key", kind))) if file is None else read_schema(file)
    return Encoding(known, _known(encode, schema, topic, f"{topic}-key"))


def _known(encode: Encode, schema: Schema, topic: str, subject: str) -> KnownSchema:
    serializer = Serializer(encode.registry, schema, register=encode.register_schema, subject=subject)
    try:
        return KnownSchema(encode.registry, schema, serializer.schema_id(topic))
    except Conflict as error:
        raise Conflict(
            f"the schema of the columns breaks those who read the topic '{topic}': {error.what}",
            safe="Nothing was written",
            fix=f"Change the columns in a step, or the compatibility: penstock schema compatibility {subject}",
        ) from None


def avro_of(topic: str, columns: pa.Schema) -> Schema:
    """Return an Avro schema for columns; each may be null, so that one can be added later."""
    return Schema(text=_text(_record(_name(topic), list(columns))))


def _name(topic: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    return name if _NAME.fullmatch(name) else f"_{name}"


def _text(schema: Any) -> str:
    return orjson.dumps(schema).decode()


def _record(name: str, fields: list[pa.Field]) -> dict[str, Any]:
    for field in fields:
        if _NAME.fullmatch(field.name) is None:
            raise BadInput(f"the column '{field.name}' has a name that Avro does not allow", fix="Rename it in a step")
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": field.name, "type": ["null", _type(f"{name}_{field.name}", field.type)], "default": None}
            for field in fields
        ],
    }


def _type(name: str, kind: pa.DataType) -> Any:
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", _type(f"{name}_item", kind.value_type)]}
    if pa.types.is_map(kind):
        return {"type": "map", "values": ["null", _type(f"{name}_value", kind.item_type)]}
    if pa.types.is_struct(kind):
        return _record(name, list(kind))
    raise BadInput(f"no Avro type is made of {kind}", fix="Turn it into another one in a step")
