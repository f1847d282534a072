"""Protobuf: schemas as text or as a serialised file descriptor, compiled, and single messages to bytes and back.

Compiling is protoc's work, in a process of its own: what somebody has registered is not to be trusted with this one.
"""

import base64
import binascii
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from penstock.errors import BadInput
from penstock.extras import require
from penstock.interpreter import SAFE_PYTHON
from penstock.schemas.schema import Schema
from penstock.schemas.wire import UnframedError, message_indexes, with_message_indexes

_MAIN = "penstock_main.proto"
_COMPILE_S = 60.0
_LONGEST_NAME = 200


class ProtobufSchema:
    """A compiled file, with what it imports."""

    def __init__(self, schema: Schema, referred: Mapping[str, Schema] | None = None) -> None:
        require("schemas", "Protobuf")
        from google.protobuf import descriptor_pool

        files = _compiled(schema, referred or {})
        self._pool = descriptor_pool.DescriptorPool()
        try:
            for each in files:
                self._pool.Add(each)
            self.file: Any = self._pool.FindFileByName(files[-1].name)
            # It is looked at only when it is asked for.
            self.messages: list[Any] = [
                self._pool.FindMessageTypeByName(_full(self.file, each)) for each in _tops(files)
            ]
        except (TypeError, KeyError) as error:
            raise BadInput(f"this is not a Protobuf schema: {error}") from None
        if not self.messages:
            raise BadInput("this Protobuf schema has no message")
        self._classes: dict[tuple[int, ...], Any] = {}

    def descriptor(self, indexes: tuple[int, ...]) -> Any:
        """Return the message at these indexes; raise `ValueError` if there is none."""
        inside = self.messages
        found = None
        for index in indexes:
            if not 0 <= index < len(inside):
                raise ValueError(f"the schema has no message at {list(indexes)}")
            found = inside[index]
            inside = found.nested_types
        return found

    def message_class(self, indexes: tuple[int, ...] = (0,)) -> Any:
        """Return what makes and reads messages at these indexes."""
        from google.protobuf import message_factory

        if indexes not in self._classes:
            self._classes[indexes] = message_factory.GetMessageClass(self.descriptor(indexes))
        return self._classes[indexes]

    def indexes_of(self, name: str) -> tuple[int, ...]:
        """Return where a message is in the file, by its whole name or by the end of it."""

        def search(inside: list[Any], above: tuple[int, ...]) -> tuple[int, ...] | None:
            for index, each in enumerate(inside):
                if each.full_name == name or each.full_name.endswith(f".{name}"):
                    return (*above, index)
                if (found := search(each.nested_types, (*above, index))) is not None:
                    return found
            return None

        found = search(self.messages, ())
        if found is None:
            raise BadInput(f"the schema has no message '{name}'")
        return found

    def encode(self, value: Any, indexes: tuple[int, ...] = (0,)) -> bytes:
        """Return the bytes of a dictionary or message, behind its indexes; raise `ValueError` if it does not fit."""
        from google.protobuf import json_format, message

        if isinstance(value, message.Message):
            return with_message_indexes(indexes, value.SerializeToString())
        made = self.message_class(indexes)()
        if not isinstance(value, dict):
            raise ValueError(f"a value of type {type(value).__name__} is not the message {made.DESCRIPTOR.full_name}")  # noqa: TRY004 - as all misfits
        try:
            json_format.ParseDict(value, made)
            return with_message_indexes(indexes, made.SerializeToString())
        except (json_format.ParseError, message.EncodeError, TypeError, ValueError) as error:
            raise ValueError(str(error).partition("\n")[0]) from None

    def read(self, payload: bytes) -> Any:
        """Return the message in these bytes; raise `ValueError` if they are none."""
        from google.protobuf import message

        indexes, begin = message_indexes(payload)
        try:
            return self.message_class(indexes).FromString(payload[begin:])
        except (message.DecodeError, RecursionError) as error:
            name = self.descriptor(indexes).full_name
            raise ValueError(f"the bytes do not fit the message '{name}': {error}") from None

    def decode(self, payload: bytes) -> dict[str, Any]:
        """Return the message in these bytes as JSON shows it, with the names of the schema."""
        from google.protobuf import json_format

        try:
            found: dict[str, Any] = json_format.MessageToDict(
                self.read(payload),
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
                descriptor_pool=self._pool,
            )
        except UnframedError as error:
            raise ValueError(str(error)) from None
        return found


def _tops(files: list[Any]) -> list[str]:
    return [each.name for each in files[-1].message_type]


def _full(file: Any, name: str) -> str:
    return f"{file.package}.{name}" if file.package else name


def _compiled(schema: Schema, referred: Mapping[str, Schema]) -> list[Any]:
    """Return the descriptors of all files, imported ones first."""
    from google.protobuf import descriptor_pb2

    serialised = {name: _from_base64(each.text) for name, each in {**referred, _MAIN: schema}.items()}
    if serialised[_MAIN] is not None:
        # Confluent's client for Python registers descriptors, and none of Google's own files among the references.
        known = [each for each in (serialised[name] for name in referred) if each is not None]
        main = serialised[_MAIN]
        own = {each.name for each in (*known, main)}
        return [*_google(own, [*known, main]), *known, main]
    with tempfile.TemporaryDirectory(prefix="penstock-protobuf-") as place:
        folder = Path(place)
        for name, each in {**referred, _MAIN: schema}.items():
            _put(folder, name, each.text)
        return list(descriptor_pb2.FileDescriptorSet.FromString(_protoc(folder, _MAIN)).file)


def _put(folder: Path, name: str, text: str) -> None:
    """Write a file under the name that another one imports it by, which somebody else has chosen."""
    place, path = PurePosixPath(name), folder / name
    refusal = BadInput(f"'{name[:_LONGEST_NAME]}' is not a name that a Protobuf file is imported by")
    if (
        not place.name
        or place.is_absolute()
        or ".." in place.parts
        or "\0" in name
        or len(name.encode(errors="replace")) > _LONGEST_NAME
    ):
        raise refusal
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except (FileExistsError, NotADirectoryError, IsADirectoryError, UnicodeEncodeError):
        raise refusal from None


def _google(own: set[str], files: list[Any]) -> list[Any]:
    """Return the files of Google's own that some files import."""
    from google.protobuf import descriptor_pb2

    wanted = sorted({name for each in files for name in each.dependency} - own)
    if not wanted:
        return []
    with tempfile.TemporaryDirectory(prefix="penstock-protobuf-") as place:
        lines = ['syntax = "proto3";', *(f'import "{name}";' for name in wanted)]
        (Path(place) / _MAIN).write_text("\n".join(lines), encoding="utf-8")
        found = descriptor_pb2.FileDescriptorSet.FromString(_protoc(Path(place), _MAIN)).file
    return [each for each in found if each.name != _MAIN]


def _protoc(folder: Path, name: str) -> bytes:
    out = folder / "descriptors"
    from importlib.resources import files

    includes = [f"-I{folder}", f"-I{files('grpc_tools') / '_proto'}"]
    command = [*SAFE_PYTHON, "-m", "grpc_tools.protoc", *includes, "--include_imports", f"--descriptor_set_out={out}"]
    try:
        done = subprocess.run(
            [*command, name], cwd=folder, capture_output=True, text=True, check=False, timeout=_COMPILE_S
        )
    except subprocess.TimeoutExpired:
        raise BadInput(f"this Protobuf schema takes protoc more than {_COMPILE_S:.0f} seconds") from None
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if ".proto:" in line and "warning" not in line]
        reason = (lines or done.stderr.splitlines() or ["protoc does not say why"])[0].replace(f"{folder}/", "")
        raise BadInput(f"this is not a Protobuf schema: {reason.replace(f'{_MAIN}:', 'line ')}")
    return out.read_bytes()


def _from_base64(text: str) -> Any | None:
    """Return a serialised file descriptor; None if the text is a schema as people write it."""
    from google.protobuf import descriptor_pb2, message

    try:
        found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, message.DecodeError):
        return None
    return found if found.name and found.message_type else None
