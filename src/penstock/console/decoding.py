"""Keys and values by the schema whose id they carry: Avro, JSON and Protobuf, as the registry knows them."""

import threading
import time
from typing import TYPE_CHECKING

import orjson

from penstock.config.settings import Settings
from penstock.console.records import Content, content_of
from penstock.errors import BadInput, EnvironmentNotReady, NotFound, PenstockError
from penstock.sinks.rows import plain

if TYPE_CHECKING:
    from penstock.schemas.serializer import Deserializer

_MAGIC = b"\x00"
_HEAD_BYTES = 5
_LOOK_AGAIN_S = 10.0


class Decoding:
    """Decodes what is framed as Confluent's clients do; all else, and what does not fit its schema, stays as it is.

    A registry that is not there, or does not answer, is asked again after some seconds and not for every record.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._deserializer: Deserializer | None = None
        self._look_again_s = 0.0

    def content(self, found: bytes | str | None) -> Content | None:
        """Return a key, a value or a header as it is shown."""
        if not isinstance(found, bytes) or found[:1] != _MAGIC or len(found) <= _HEAD_BYTES:
            return content_of(found)
        deserializer = self._known()
        if deserializer is None:
            return content_of(found)
        try:
            decoded = deserializer.decode(found)
            written = orjson.dumps(plain(decoded.value), option=orjson.OPT_NON_STR_KEYS)
        except (BadInput, NotFound, TypeError, RecursionError):  # it only looks as if, or is nothing that JSON holds
            return content_of(found)
        except PenstockError:
            self._pause()
            return content_of(found)
        shown = content_of(written)
        return shown and shown.model_copy(update={"bytes": len(found), "schema_id": decoded.schema_id})

    def _known(self) -> "Deserializer | None":
        with self._lock:
            if time.monotonic() < self._look_again_s:
                return self._deserializer
            self._look_again_s = time.monotonic() + _LOOK_AGAIN_S
            try:
                from penstock.schemas.serializer import Deserializer

                # A schema is anybody's, and one that takes years to be compared with would keep everybody waiting.
                self._deserializer = Deserializer(self._settings.registry(), checks_json=False)
            except (NotFound, BadInput, EnvironmentNotReady, ImportError):
                self._deserializer = None
            return self._deserializer

    def _pause(self) -> None:
        with self._lock:
            self._deserializer = None
            self._look_again_s = time.monotonic() + _LOOK_AGAIN_S
