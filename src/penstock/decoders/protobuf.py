"""Protobuf messages, each by the schema that it names in a schema registry.

Guarantee: a record becomes a row, or fails by itself with the reason: no or a wrong magic byte, a schema id that the
registry does not know, a message that the schema does not have, bytes that Protobuf cannot read. Bytes of fields that
the schema does not know are passed over, as Protobuf does. A registry that does not answer is an outage, which the
pipeline waits for. docs/schemas.md says which column each type gives.
"""

import functools
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from penstock.decoders.columns import Column, arrow_schema_of
from penstock.decoders.own_columns import OwnColumns
from penstock.decoders.protobuf_columns import Read, protobuf_columns
from penstock.decoders.protobuf_vectors import ProtobufVectors
from penstock.decoders.registered import in_order
from penstock.decoders.registry_model import RegistryDecoderModel
from penstock.errors import BadInput
from penstock.record.decoded import RecordError, arrays_of, record_error
from penstock.schemas.client import RegistryClient, client_of
from penstock.schemas.formats import Format
from penstock.schemas.protobuf import ProtobufSchema
from penstock.schemas.registry import Registry
from penstock.schemas.schema import Schema
from penstock.schemas.wire import UnframedError, message_indexes

_FIRST = b"\x00"
"""How a payload says that it is the first message of its schema."""


class Protobuf(RegistryDecoderModel, frozen=True):
    """Each value is a Protobuf message, behind the id of its schema and the place of its message in that."""

    type: Literal["protobuf"] = Field("protobuf", description="Protobuf messages by the schemas of a registry.")
    message: str | None = Field(
        None,
        description="Message that gives the columns; the first of the schema if left out. With `schema: registry`.",
    )

    @property
    def schema_format(self) -> Format:
        """The format of the schemas that it decodes with."""
        return "PROTOBUF"

    def columns_of(self, client: RegistryClient, schema: Schema) -> tuple[str, tuple[Column, ...]]:
        """Return the columns of a message, and its name."""
        opened = ProtobufSchema(schema, client.referred(schema))
        message = opened.descriptor((0,) if self.message is None else opened.indexes_of(self.message))
        return message.name, protobuf_columns(message)[0]

    def payloads(self, client: RegistryClient, schema_id: int, wanted: tuple[Column, ...]) -> "ProtobufPayloads":
        """Return the decoder of values that were written with a schema."""
        messages = frozenset[str]() if self._reader is None else self._reader.messages
        return ProtobufPayloads(_known(client.registry, schema_id), wanted, messages)


@functools.lru_cache(maxsize=1000)
def _known(registry: Registry, schema_id: int) -> ProtobufSchema:
    client = client_of(registry)
    schema = client.schema(schema_id)
    referred = client.referred(schema)
    try:
        return ProtobufSchema(schema, referred)
    except BadInput as error:  # of whoever registered it: it fails the records that name it, and no others
        raise ValueError(error.what) from None


class ProtobufPayloads:
    """Decodes what was written with one schema: the messages of these names, or any of its messages.

    Columns that are those of one message would make a row of any other, out of Protobuf's defaults.
    """

    def __init__(
        self, schema: ProtobufSchema, wanted: tuple[Column, ...], messages: frozenset[str] = frozenset()
    ) -> None:
        self._schema = schema
        self._wanted = wanted
        self._names = messages
        self._schema_wanted = arrow_schema_of(wanted)
        self._by_beginning: dict[bytes, _Messages] = {}

    def decode(self, payloads: Sequence[bytes]) -> tuple[list[pa.Array], list[RecordError | None]]:
        """Return the wanted columns, and an error for each payload that is no such message."""
        if {payload[:1] for payload in payloads} == {_FIRST} and self._is_wanted((0,)):
            try:
                alike = self._messages(_FIRST, (0,))
            except ValueError:
                pass  # no table has such a message, and each payload is reported so below
            else:
                return alike.decode(payloads)
        record_errors: list[RecordError | None] = [None] * len(payloads)
        groups: dict[_Messages, list[int]] = {}
        for number, payload in enumerate(payloads):
            try:
                indexes, begin = message_indexes(payload)
                groups.setdefault(self._messages(payload[:begin], indexes), []).append(number)
            except UnframedError as error:
                record_errors[number] = record_error(error.error, str(error))
            except ValueError as error:
                record_errors[number] = record_error("Malformed", str(error))
        parts, order = list[list[pa.Array]](), list[int]()
        for messages, numbers in groups.items():
            columns, failures = messages.decode([payloads[number] for number in numbers])
            for number, failure in zip(numbers, failures, strict=True):
                record_errors[number] = failure
            parts.append(columns)
            order += numbers
        return in_order(self._schema_wanted, parts, order, len(payloads)), record_errors

    def _messages(self, beginning: bytes, indexes: tuple[int, ...]) -> "_Messages":
        if not self._is_wanted(indexes):
            what = f"the message '{self._schema.descriptor(indexes).name}'"
            raise UnframedError(
                "OtherMessage", f"it is {what}, and the columns are those of {', '.join(sorted(self._names))}"
            )
        if beginning not in self._by_beginning:
            self._by_beginning[beginning] = _Messages(self._schema, indexes, len(beginning), self._wanted)
        return self._by_beginning[beginning]

    def _is_wanted(self, indexes: tuple[int, ...]) -> bool:
        return not self._names or self._schema.descriptor(indexes).name in self._names


class _Messages(OwnColumns):
    """Reads messages of one kind, which begin behind their indexes."""

    def __init__(
        self, schema: ProtobufSchema, indexes: tuple[int, ...], begin: int, wanted: tuple[Column, ...]
    ) -> None:
        from google.protobuf import message

        descriptor = schema.descriptor(indexes)
        columns, self._reads = protobuf_columns(descriptor)
        super().__init__(columns, wanted, ProtobufVectors.of(descriptor, columns, begin))
        self._read = schema.message_class(indexes).FromString
        self._unreadable = (message.DecodeError, RecursionError)
        self._name = descriptor.full_name
        self._begin = begin

    def one_by_one(self, payloads: Sequence[bytes]) -> tuple[list[pa.Array], list[RecordError | None]]:
        """Return the message's columns, and an error for each payload that is none."""
        messages: list[Any] = []
        record_errors: list[RecordError | None] = [None] * len(payloads)
        for number, payload in enumerate(payloads):
            try:
                messages.append(self._read(payload[self._begin :]))
            except self._unreadable as error:
                text = f"the bytes do not fit the message '{self._name}': {error}"
                record_errors[number] = record_error("Malformed", text)
                messages.append(None)
        by_column = [
            _values(name, read, messages, record_errors)
            for name, read in zip(self.own_schema.names, self._reads, strict=True)
        ]
        return arrays_of(self.own_schema, by_column, record_errors), record_errors


def _values(name: str, read: Read, messages: list[Any], record_errors: list[RecordError | None]) -> list[Any]:
    """Return a field of all messages; one that JSON has no word for fails its message."""
    try:
        return [None if each is None else read(each) for each in messages]
    except ValueError:
        pass
    found: list[Any] = []
    for number, each in enumerate(messages):
        try:
            found.append(None if each is None else read(each))
        except ValueError as error:
            record_errors[number] = record_errors[number] or record_error("SchemaMismatch", f"{name}: {error}")
            found.append(None)
    return found
