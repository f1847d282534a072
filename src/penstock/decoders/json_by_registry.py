"""JSON behind the id of its schema: what the decoder `json` opens if a registry is named."""

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
from pydantic import Field, PrivateAttr

from penstock.decoders.columns import Column, arrow_schema_of
from penstock.decoders.json import Json, JsonDecoder
from penstock.decoders.json_columns import json_columns
from penstock.decoders.registry_model import RegistryDecoderModel
from penstock.record.decoded import RecordError
from penstock.schemas.client import RegistryClient
from penstock.schemas.formats import Format
from penstock.schemas.json_schema import JsonSchema
from penstock.schemas.schema import Schema


class JsonByRegistry(RegistryDecoderModel, frozen=True):
    """Each value is one JSON object, behind the id of its schema."""

    type: Literal["json"] = Field("json", description="JSON objects by the schemas of a registry.")
    _written: Json = PrivateAttr()

    @classmethod
    def of(cls, written: Json) -> "JsonByRegistry":
        """Take the settings of the pipeline file."""
        found = cls.model_validate(
            {
                "registry": written.registry,
                "schema": written.columns,
                "subject": written.subject,
                "tombstones": written.tombstones,
                "max_record_bytes": written.max_record_bytes,
            }
        )
        found._written = written  # noqa: SLF001 - of the same class
        return found

    @property
    def schema_format(self) -> Format:
        """The format of the schemas that it decodes with."""
        return "JSON"

    def columns_of(self, client: RegistryClient, schema: Schema) -> tuple[str, tuple[Column, ...]]:
        """Return the columns of a schema."""
        return "", json_columns(JsonSchema(schema, client.referred(schema)))

    def payloads(self, client: RegistryClient, schema_id: int, wanted: tuple[Column, ...]) -> "JsonPayloads":  # noqa: ARG002
        """Return what decodes JSON; the names in it are those of its schema, whichever that is."""
        return JsonPayloads(JsonDecoder(self._written, arrow_schema_of(wanted)))


class JsonPayloads:
    """Decodes what follows the id."""

    def __init__(self, decoder: JsonDecoder) -> None:
        self._decoder = decoder

    def decode(self, payloads: Sequence[bytes]) -> tuple[list[pa.Array], list[RecordError | None]]:
        """Return the columns, and an error for each payload that is no such object."""
        found = self._decoder.decode(payloads)
        return found.columns, found.record_errors
