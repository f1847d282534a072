"""Records as `penstock consume` prints them once a schema registry has said what they mean."""

from typing import TYPE_CHECKING, Any

import orjson

from penstock.errors import BadInput, NotFound
from penstock.sinks.rows import plain

if TYPE_CHECKING:
    from confluent_kafka import Message

    from penstock.schemas.registry import Registry

_JSON_LIMIT_S = 5.0
"""Anybody may have registered a schema that takes years."""


class DecodedRecords:
    """Decodes keys and values; what names no schema, or does not fit it, is shown as it is, with the reason."""

    def __init__(self, registry: "Registry") -> None:
        from penstock.schemas.serializer import Deserializer

        self._deserializer = Deserializer(registry, json_limit_s=_JSON_LIMIT_S)
        self.schema_ids: set[int] = set()
        """The schemas of all values so far."""
        self.undecoded = 0

    def line(self, message: "Message") -> bytes:
        """Return the value as JSON; as it is if it cannot be decoded."""
        raw = message.value() or b""
        found = self._decoded(raw)
        return orjson.dumps(found["value"], option=orjson.OPT_NON_STR_KEYS) if "schema_id" in found else raw

    def described(self, message: "Message", plainly: dict[str, Any]) -> dict[str, Any]:
        """Return the description of a record with its decoded key and value, and the ids of their schemas."""
        key, value = message.key(), message.value()
        found = plainly if value is None else {**plainly, **self._decoded(value)}
        if key is not None and key[:1] == b"\x00":
            decoded = self._decoded(key, counts=False)
            found = {**found, **{f"key_{name}" if name != "value" else "key": each for name, each in decoded.items()}}
        return found

    def _decoded(self, data: "bytes | str", *, counts: bool = True) -> dict[str, Any]:
        try:
            found = self._deserializer.decode(data if isinstance(data, bytes) else data.encode())
        except (BadInput, NotFound) as error:
            self.undecoded += counts
            return {"error": error.what}
        if counts:
            self.schema_ids.add(found.schema_id)
        return {"value": plain(found.value), "schema_id": found.schema_id}
