"""What decoders of a registry's schemas have in common in a pipeline file, and where their columns come from."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr, field_validator

from penstock.config.problem import PipelineView, Problem
from penstock.decoders.columns import Column, arrow_schema_of, columns_of, settled
from penstock.decoders.decoder import DecoderContext, DecoderModel
from penstock.decoders.registered import UNUSABLE, Payloads, RegisteredDecoder, why_unusable
from penstock.errors import BadInput, NotFound, SchemaChanged
from penstock.quantities import SizeBytes
from penstock.record.schema import parse
from penstock.schemas.client import RegistryClient, client_of
from penstock.schemas.formats import Format
from penstock.schemas.registry import NamedRegistry, Registry, project_registry
from penstock.schemas.schema import Schema

FROM_REGISTRY = "registry"


@dataclass(frozen=True)
class ReaderSchema:
    """The columns as the registry gave them, and which of its schemas they come from."""

    subject: str
    version: int
    ids: frozenset[int]
    columns: tuple[Column, ...]
    messages: frozenset[str]
    """Names of the types that the columns belong to, where a schema holds several; empty if it holds one."""


class RegistryDecoderModel(DecoderModel, frozen=True):
    """A decoder of values that say which schema of a registry they were written with."""

    registry: NamedRegistry = Field(
        default_factory=project_registry,
        description="The schema registry: its address, or the address and a login; that of the project if left out.",
    )
    columns: str = Field(
        FROM_REGISTRY,
        alias="schema",
        description="`registry`: the columns follow the subject's schemas, a new field becomes a new column while the"
        " pipeline runs; or columns as in Spark SQL, found in each record by name.",
    )
    subject: str | None = Field(
        None, min_length=1, description="Subject whose schemas give the columns; `TOPIC-value` if left out."
    )
    tombstones: Literal["dead_letter", "drop"] = Field(
        "dead_letter", description="What happens to a record whose value is null, as compacted topics have them."
    )
    max_record_bytes: SizeBytes = Field(10_000_000, gt=0, description="A larger record fails.")
    _reader: ReaderSchema | None = PrivateAttr(None)

    @field_validator("columns")
    @classmethod
    def _schema_is_understood(cls, value: str) -> str:
        if value != FROM_REGISTRY:
            parse(value)
        return value

    @property
    def arrow_schema(self) -> pa.Schema | None:
        """The columns that decoding gives; None before the registry was asked."""
        if self.columns != FROM_REGISTRY:
            return parse(self.columns)
        return None if self._reader is None else arrow_schema_of(self._reader.columns)

    @property
    def can_drop(self) -> bool:
        """Whether tombstones are dropped."""
        return self.tombstones == "drop"

    def problems(self, pipeline: PipelineView) -> Iterator[Problem]:
        """Return what the user has to specify."""
        if self.columns == FROM_REGISTRY and self.subject is None and len(pipeline.named_topics) != 1:
            yield Problem.error("of several topics, name the subject whose schemas give the columns", "subject")

    def resolved(self, topics: Sequence[str]) -> Self:
        """Return the decoder with the columns of all versions of the subject, as they are now."""
        if self.columns != FROM_REGISTRY:
            return self
        subject = self.subject or f"{next(iter(topics), '')}-value"
        client = client_of(self.registry)
        versions = [client.version(subject, each) for each in client.versions(subject)]
        if not versions:
            raise BadInput(f"the subject '{subject}' has no schema in {self.registry}")
        columns: dict[str, Column] = {}
        messages = set[str]()
        for each in reversed(versions):
            _require_format(each.definition, self.schema_format, each.id)
            try:
                message, found = self.columns_of(client, each.definition)
            except UNUSABLE as error:
                if not columns:
                    raise BadInput(f"the schema of '{subject}' gives no columns: {why_unusable(error)}") from None
                continue  # an older one, which the newest has fixed
            messages |= {message} if message else set()
            names = {name.lower() for column in columns.values() for name in (column.name, *column.aliases)}
            # What the newest has not any more, its records do not have.
            older = found if not columns else [replace(column, default=None) for column in found]
            columns |= {column.name: column for column in older if column.name.lower() not in names}
        reader = ReaderSchema(
            subject,
            versions[-1].version,
            frozenset(each.id for each in versions),
            tuple(map(settled, columns.values())),
            frozenset(messages),
        )
        if reserved := [name for name in columns if name.startswith("_")]:
            raise BadInput(f"'{reserved[0]}': names that begin with an underscore belong to Penstock")
        resolved = self.model_copy()
        resolved._reader = reader  # noqa: SLF001 - of the same class
        return resolved

    def open(self, context: DecoderContext) -> RegisteredDecoder:  # noqa: ARG002 - it needs nothing
        """Return the decoder; one per task."""
        client = client_of(self.registry)
        wanted = columns_of(parse(self.columns)) if self._reader is None else self._reader.columns

        def opened(schema_id: int) -> Payloads:
            schema = client.schema(schema_id)
            _require_format(schema, self.schema_format, schema_id)
            self._require_newest(client, schema_id)
            return self.payloads(client, schema_id, wanted)

        return RegisteredDecoder(
            arrow_schema_of(wanted),
            opened,
            drops_tombstones=self.can_drop,
            max_record_bytes=self.max_record_bytes,
        )

    def _require_newest(self, client: RegistryClient, schema_id: int) -> None:
        """Raise if a record's schema is newer than the columns: its new fields would be lost.

        A schema is in the registry before a record names it, so asking at the first record of each id is enough.
        """
        reader = self._reader
        if reader is None or schema_id in reader.ids or (self.registry, reader, schema_id) in _seen:
            return
        try:
            newest = client.version(reader.subject)
        except NotFound:
            newest = None  # the subject was deleted, which makes no record worse
        # A subject that was deleted and registered again counts its versions from 1, too.
        if newest is not None and (newest.version != reader.version or newest.id not in reader.ids):
            raise SchemaChanged(f"the subject '{reader.subject}' has a new version, {newest.version}")
        _seen.add((self.registry, reader, schema_id))

    @property
    @abstractmethod
    def schema_format(self) -> Format:
        """The format of the schemas that it decodes with."""

    @abstractmethod
    def columns_of(self, client: RegistryClient, schema: Schema) -> tuple[str, tuple[Column, ...]]:
        """Return the message of a schema that gives the columns, and these; raise `ValueError` if no table has them."""

    @abstractmethod
    def payloads(self, client: RegistryClient, schema_id: int, wanted: tuple[Column, ...]) -> Payloads:
        """Return the decoder of values that were written with a schema, into the wanted columns."""


_seen: set[tuple[Registry, ReaderSchema, int]] = set()
"""Ids that were looked up and are not of the subject: schemas under another subject."""


def _require_format(schema: Schema, wanted: Format, schema_id: int) -> None:
    if schema.format != wanted:
        raise ValueError(f"it is written in {schema.format}, not in {wanted} (schema {schema_id})")
