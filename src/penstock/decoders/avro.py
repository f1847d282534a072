"""Avro records, each by the schema that it names in a schema registry.

Guarantee: a record becomes a row, or fails by itself with the reason: no or a wrong magic byte, a schema id that the
registry does not know, bytes that do not fit the schema or go on after it, a value that does not fit its column. A
registry that does not answer is an outage, which the pipeline waits for. docs/schemas.md says which column each Avro
type gives.
"""

import functools
import io
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from penstock.decoders.avro_columns import avro_columns
from penstock.decoders.avro_vectors import AvroVectors
from penstock.decoders.columns import Column
from penstock.decoders.own_columns import OwnColumns
from penstock.decoders.registry_model import RegistryDecoderModel
from penstock.errors import BadInput
from penstock.record.decoded import RecordError, arrays_of, record_error
from penstock.schemas.avro import UNREADABLE, AvroSchema, in_words
from penstock.schemas.client import RegistryClient, client_of
from penstock.schemas.formats import Format
from penstock.schemas.registry import Registry
from penstock.schemas.schema import Schema


class Avro(RegistryDecoderModel, frozen=True):
    """Each value is an Avro record, behind the id of its schema."""

    type: Literal["avro"] = Field("avro", description="Avro records by the schemas of a registry.")

    @property
    def schema_format(self) -> Format:
        """The format of the schemas that it decodes with."""
        return "AVRO"

    def columns_of(self, client: RegistryClient, schema: Schema) -> tuple[str, tuple[Column, ...]]:
        """Return the columns of a schema."""
        return "", avro_columns(AvroSchema(schema, client.referred(schema).values())).columns

    def payloads(self, client: RegistryClient, schema_id: int, wanted: tuple[Column, ...]) -> "AvroPayloads":
        """Return the decoder of values that were written with a schema."""
        return AvroPayloads(_known(client.registry, schema_id), wanted)


@functools.lru_cache(maxsize=1000)
def _known(registry: Registry, schema_id: int) -> AvroSchema:
    client = client_of(registry)
    schema = client.schema(schema_id)
    referred = client.referred(schema)
    try:
        return AvroSchema(schema, referred.values())
    except BadInput as error:  # of whoever registered it: it fails the records that name it, and no others
        raise ValueError(error.what) from None


class AvroPayloads(OwnColumns):
    """Decodes values that were written with one schema."""

    def __init__(self, schema: AvroSchema, wanted: tuple[Column, ...]) -> None:
        self._name = schema.name
        self._plain = schema.plain()
        self._bounds = schema.bounds
        self._own = avro_columns(schema)
        super().__init__(self._own.columns, wanted, AvroVectors.of(schema, self._own))

    def one_by_one(self, payloads: Sequence[bytes]) -> tuple[list[pa.Array], list[RecordError | None]]:
        """Return the schema's columns, and an error for each payload that is not such a record."""
        rows: list[Any] = []
        record_errors: list[RecordError | None] = [None] * len(payloads)
        for number, payload in enumerate(payloads):
            try:
                rows.append(self._read(payload))
            except UNREADABLE as error:
                rows.append(None)
                text = f"the bytes do not fit the schema '{self._name}': {in_words(error)}"
                record_errors[number] = record_error("Malformed", text)
        by_column = (self._values(index, rows) for index in range(len(self._own.columns)))
        return arrays_of(self.own_schema, by_column, record_errors), record_errors

    def _read(self, payload: bytes) -> Any:
        import fastavro

        self._bounds.require(payload)
        source = io.BytesIO(payload)
        value = fastavro.schemaless_reader(source, self._plain, None, return_named_type=self._own.has_choices)
        if rest := len(payload) - source.tell():
            raise ValueError(f"{rest} bytes are left after it")
        return value

    def _values(self, index: int, rows: list[Any]) -> list[Any]:
        name, convert = self._own.columns[index].name, self._own.converts[index]
        values = [None if row is None else row[name] for row in rows] if self._own.is_record else rows
        return values if convert is None else [None if each is None else convert(each) for each in values]
