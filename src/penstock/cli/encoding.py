"""Lines and keys of `penstock produce` as they are sent: checked and encoded by a schema, or as they are."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from penstock.cli.session import Session
from penstock.errors import BadInput

if TYPE_CHECKING:
    from penstock.schemas.serializer import Serializer


@dataclass(frozen=True)
class Encoding:
    """Encodes a line and its key before they are sent; without a schema they stay as they are."""

    topic: str
    values: "Serializer | None"
    keys: "Serializer | None"

    @classmethod
    def of(
        cls, current: Session, topic: str, schema: Path | None, key_schema: Path | None, registry: str | None
    ) -> "Encoding":
        """Register the schemas, so that one that the registry refuses is reported before anything is sent."""
        if schema is None and key_schema is None:
            if registry is not None:
                raise BadInput("--registry goes with --schema and --key-schema")
            return cls(topic, None, None)
        from penstock.schemas.serializer import Serializer

        where = current.settings.registry(registry)
        values = Serializer(where, schema) if schema is not None else None
        keys = Serializer(where, key_schema) if key_schema is not None else None
        for each, is_key in ((values, False), (keys, True)):
            if each is not None:
                each.schema_id(topic, is_key=is_key)
        return cls(topic, values, keys)

    def encoded(self, line: bytes, key: str | None) -> tuple[bytes | str | None, bytes | None]:
        """Return key and value as they are sent."""
        value = line if self.values is None else _fitting(self.values, self.topic, orjson.loads(line))
        if self.keys is None or key is None:
            return key, value
        try:
            return _fitting(self.keys, self.topic, orjson.loads(key), is_key=True), value
        except (orjson.JSONDecodeError, MisfitError):  # a text that is no JSON, or only looks like it
            return _fitting(self.keys, self.topic, key, is_key=True), value


def _fitting(serializer: "Serializer", topic: str, value: Any, *, is_key: bool = False) -> bytes | None:
    try:
        return serializer.encode(topic, serializer.of_json(value), is_key=is_key)
    except BadInput as error:
        raise MisfitError(error.what) from None


class MisfitError(ValueError):
    """The value or the key does not fit its schema."""
