"""The registry's own words: what schemas are written in, and which versions a new one has to get along with."""

from typing import Literal

Format = Literal["AVRO", "JSON", "PROTOBUF"]
Level = Literal["NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"]
"""Which other versions of a subject a new one has to get along with."""

SUFFIXES: dict[str, Format] = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
"""What a file's name says of its format."""
