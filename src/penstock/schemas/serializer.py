"""Values to the bytes of records and back, by the schemas of a registry: for producers, consumers and commands.

A value that does not fit its schema, and a schema that the registry does not take, are refused before anything is sent.
"""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import ValidationError

from penstock.errors import BadInput, Conflict, NotFound
from penstock.schemas.avro import AvroSchema
from penstock.schemas.avro_json import from_json
from penstock.schemas.client import RegistryClient, client_of
from penstock.schemas.formats import SUFFIXES, Format
from penstock.schemas.json_schema import JsonSchema
from penstock.schemas.protobuf import ProtobufSchema
from penstock.schemas.registry import Registry
from penstock.schemas.schema import Reference, Schema
from penstock.schemas.time_limit import at_most
from penstock.schemas.wire import FRAME_BYTES, UnframedError, framed, schema_id_of

Strategy = Literal["TopicName", "RecordName", "TopicRecordName"]
"""What a subject is named after: the topic, the record, or both."""
AnySchema = AvroSchema | JsonSchema | ProtobufSchema
_BELIEVED_S = 10.0
_SLOWEST_BYTES_A_SECOND = 10_000
"""What a comparison that is no attack reaches by far."""


def opened(client: RegistryClient, schema: Schema) -> AnySchema:
    """Return a schema with all that it refers to, ready to be used; raise `BadInput` if it is none."""
    referred = _referred(client, schema)
    if schema.format == "AVRO":
        return AvroSchema(schema, referred.values())
    return JsonSchema(schema, referred) if schema.format == "JSON" else ProtobufSchema(schema, referred)


def _referred(client: RegistryClient, schema: Schema) -> dict[str, Schema]:
    try:
        return client.referred(schema)
    except ValueError as error:
        raise BadInput(f"this schema cannot be used: {error}") from None


def read_schema(file: Path, format_: Format | None = None, references: tuple[Reference, ...] = ()) -> Schema:
    """Read a schema from a file; what it is written in, its name says unless somebody else does."""
    found = format_ or SUFFIXES.get(file.suffix)
    if found is None:
        raise BadInput(f"{file}: by its name it is not an .avsc, .proto or .json", fix="Say which format it is")
    try:
        return Schema(text=file.read_text(encoding="utf-8"), format=found, references=references)
    except FileNotFoundError:
        raise NotFound(f"there is no file {file}") from None
    except (OSError, UnicodeDecodeError):
        raise BadInput(f"{file} cannot be read as text") from None


class Serializer:
    """Turns values into bytes by one schema. Not thread-safe.

    The schema is registered under the subject of a topic with the first value for it, or only looked for if `register`
    is False. `message` names a message of a Protobuf file; the first one if left out. `subject` names the subject,
    whatever the strategy.
    """

    def __init__(
        self,
        registry: Registry | str,
        schema: Schema | Path | str,
        *,
        strategy: Strategy = "TopicName",
        register: bool = True,
        message: str | None = None,
        subject: str | None = None,
    ) -> None:
        self._client = client_of(registry_of(registry))
        self.schema = schema if isinstance(schema, Schema) else read_schema(Path(schema))
        self._opened = opened(self._client, self.schema)
        self._strategy = strategy
        self._subject = subject
        self._register = register
        self._ids: dict[tuple[str, bool], int] = {}
        self._indexes: tuple[int, ...] = (0,)
        if isinstance(self._opened, ProtobufSchema) and message is not None:
            self._indexes = self._opened.indexes_of(message)

    def subject(self, topic: str, *, is_key: bool = False) -> str:
        """Return the subject for a topic's values, or for its keys."""
        if self._subject is not None:
            return self._subject
        if self._strategy == "TopicName":
            return f"{topic}-{'key' if is_key else 'value'}"
        name = self._record_name()
        return name if self._strategy == "RecordName" else f"{topic}-{name}"

    def _record_name(self) -> str:
        if isinstance(self._opened, ProtobufSchema):
            return str(self._opened.descriptor(self._indexes).full_name)
        if not self._opened.name:
            raise BadInput("a subject cannot be named after a schema without a title")
        return self._opened.name

    def schema_id(self, topic: str, *, is_key: bool = False) -> int:
        """Return the id that records for a topic carry; raise `Conflict` if the registry does not take the schema."""
        known = self._ids.get((topic, is_key))
        if known is None:
            subject = self.subject(topic, is_key=is_key)
            known = self._registered(subject) if self._register else self._found(subject)
            self._ids[topic, is_key] = known
        return known

    def _registered(self, subject: str) -> int:
        try:
            return self._client.register(subject, self.schema)
        except Conflict as error:
            raise Conflict(
                error.what, safe="Nothing was sent", fix=f"See: penstock schema check {subject} FILE"
            ) from None

    def _found(self, subject: str) -> int:
        found = self._client.find(subject, self.schema)
        if found is None:
            raise NotFound(f"the subject '{subject}' does not have this schema", safe="Nothing was sent")
        return found.id

    def encode(self, topic: str, value: Any, *, is_key: bool = False) -> bytes | None:
        """Return the bytes of a value for a topic; None, a tombstone, stays None. What does not fit is `BadInput`."""
        if value is None:
            return None
        try:
            if isinstance(self._opened, ProtobufSchema):
                payload = self._opened.encode(value, self._indexes)
            else:
                payload = self._opened.encode(value)
        except ValueError as error:
            what = "key" if is_key else "value"
            raise BadInput(f"the {what} does not fit its schema: {error}", safe="It was not sent") from None
        return framed(self.schema_id(topic, is_key=is_key), payload)

    def of_json(self, value: Any) -> Any:
        """Return what was read from JSON as this schema takes it: times, decimals and bytes are texts there."""
        if isinstance(self._opened, AvroSchema):
            return from_json(value, self._opened.parsed, self._opened.named)
        return value


@dataclass(frozen=True)
class Deserialized:
    """A value, and the schema that it was written with."""

    value: Any
    schema_id: int


class _PlainJson:
    """Reads JSON, whatever its schema says."""

    def decode(self, payload: bytes) -> Any:
        return orjson.loads(payload)


class _LimitedJson:
    """Reads JSON by a schema, which has some seconds, and more with every byte that is compared with it."""

    def __init__(self, schema: Schema, referred: Mapping[str, Schema], seconds: float) -> None:
        self._seconds = self._left_s = seconds
        with self._limited():
            self._opened = JsonSchema(schema, referred)

    def decode(self, payload: bytes) -> Any:
        if self._left_s > 0:
            self._left_s += len(payload) / _SLOWEST_BYTES_A_SECOND
        with self._limited():
            return self._opened.decode(payload)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        too_slow = BadInput(f"comparing values with their JSON Schema takes longer than {self._seconds:g} seconds")
        if self._left_s <= 0:
            raise too_slow
        begun = time.thread_time()
        try:
            with at_most(self._left_s):
                yield
        except TimeoutError as expired:
            self._left_s = 0.0
            raise too_slow from expired
        finally:
            self._left_s -= time.thread_time() - begun


class Deserializer:
    """Turns the bytes of records into values, each by the schema that it names.

    Whether a value fits its JSON Schema takes as long as whoever registered that wants: a pattern, or a few parts that
    name each other, can take years. With `json_limit_s` a schema has that many seconds of processor time, and one more
    for each 10 kB of values; after that every value of it is `BadInput`. It works in the main thread only. With
    `checks_json=False` values are not compared, for who has to go on in any case.
    """

    def __init__(
        self, registry: Registry | str, *, checks_json: bool = True, json_limit_s: float | None = None
    ) -> None:
        self._client = client_of(registry_of(registry))
        self._checks_json = checks_json
        self._json_limit_s = json_limit_s
        self._opened: dict[int, AnySchema | _PlainJson | _LimitedJson] = {}
        self._unusable: dict[int, tuple[float, str]] = {}
        """Until when it is believed that a schema cannot be used, and why: finding out takes a second of Protobuf's."""

    def decode(self, data: bytes) -> Deserialized:
        """Return a value; raise `BadInput` if it names no schema or its bytes do not fit it."""
        try:
            schema_id = schema_id_of(data)
            return Deserialized(self._schema(schema_id).decode(data[FRAME_BYTES:]), schema_id)
        except RecursionError:
            raise BadInput("its schema, or what it holds, is nested without an end") from None
        except (UnframedError, ValueError) as error:
            raise BadInput(str(error)) from None

    def _schema(self, schema_id: int) -> AnySchema | _PlainJson | _LimitedJson:
        if schema_id in self._opened:
            return self._opened[schema_id]
        until, why = self._unusable.get(schema_id, (0.0, ""))
        if time.monotonic() < until:
            raise BadInput(why)
        schema = self._client.schema(schema_id)
        try:
            self._opened[schema_id] = self._reader(schema)
        except BadInput as error:
            believed_s = math.inf if isinstance(error.__cause__, TimeoutError) else _BELIEVED_S
            self._unusable[schema_id] = (time.monotonic() + believed_s, error.what)
            raise
        return self._opened[schema_id]

    def _reader(self, schema: Schema) -> AnySchema | _PlainJson | _LimitedJson:
        if schema.format == "JSON" and not self._checks_json:
            return _PlainJson()
        if schema.format == "JSON" and self._json_limit_s is not None:
            return _LimitedJson(schema, _referred(self._client, schema), self._json_limit_s)
        return opened(self._client, schema)


def registry_of(named: Registry | str) -> Registry:
    """Return a registry by its address alone."""
    try:
        return Registry.model_validate(named)
    except ValidationError as error:
        raise BadInput(error.errors(include_input=False)[0]["msg"].removeprefix("Value error, ")) from None
