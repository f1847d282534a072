"""A secret that is named rather than written: `env:NAME` or `file:PATH`.

The value is read at the moment of use and is in no repr, no dump, no pickle and no error.
"""

import functools
import os
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from penstock.errors import BadInput, NotFound

_SECRET_SETTING = re.compile(
    r"(secrets?|passwords?|passwd|passphrases?|pwd|(?<!by)(?<!com)pass|(?<!max)(?<!max[._-])tokens?|credentials?|"
    r"[._-]creds?|auth[._-]?user[._-]?info|keystore[._-]?key|jaas[._-]?config|[.]sas|connection[._-]?string|database[._-]?url|[._-]dsn|authorization|bearer|"
    r"(?-i:_AUTH|_PAT|(?<!PUBLIC)_KEYS?)|secret[._-]?key[._-]?base|encryption[._-]?key[._-]?list|"
    r"(access|secret|account|encryption|private|provided|api|app|shared|master|signing|storage|hmac|ssh|session)"
    r"[._-]?keys?([._-]?v?\d+)?)"
    r"(([.][\w-]+){1,2}([.]z\d+)?[.](blob|dfs)[.][\w.-]+)?$",  # the end is an account of Azure's, or OneLake
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"([A-Za-z][\w+.-]*)://")
_LOGIN_IN_URL = re.compile(
    r"://[^/\s@]*:(?!\d+/)[^\s@]*@|authorization\s*[:=]\s*(basic|bearer)\s|"
    r"(^|[?&;,]\s*)([\w.-]*(password|passwd|passphrase|pwd|token|secret|(api|access|account)[_-]?key)|sig)=",
    re.IGNORECASE,
)


def holds_secret(setting: str) -> bool:
    """Return whether, by its name, the value of somebody else's setting, such as one of Spark's, is a secret."""
    return _SECRET_SETTING.search(setting) is not None


def is_url_with_login(value: str) -> bool:
    """Return whether this is an address, or options, with a password in it, whatever its setting is called.

    A slash may be in the password; with digits alone before it, it is taken for what follows a port.
    """
    return _LOGIN_IN_URL.search(value) is not None


def base_folder(info: ValidationInfo) -> Path:
    """Return the folder that relative paths count from: the one of the file being read."""
    context: dict[str, Path] = info.context or {}
    return context.get("base", Path())


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError(f"the home folder in {path} is not known") from None


def _no_address(path: Any) -> Any:
    """Refuse an address: as a path it would become a folder beside the file, called `s3:`."""
    if isinstance(path, str) and (address := _ADDRESS.match(path)):
        raise ValueError(f"a path on a disk is needed here, and {address[0]} begins an address")
    return path


def _from_base(path: Path, info: ValidationInfo) -> Path:
    return base_folder(info) / _expanded(path)


PathFromFile = Annotated[Path, BeforeValidator(_no_address), AfterValidator(_from_base)]
"""A path that, in a project file, counts from that file's folder."""


@functools.cache
def _in_memory(value: str) -> str:
    """Keep a value in a file without a name, gone with this process; return where others of the user read it."""
    descriptor = os.memfd_create("penstock-secret")
    os.write(descriptor, value.encode())
    return f"/proc/{os.getpid()}/fd/{descriptor}"


class Secret:
    """Where a password is kept. `Secret.of(value)` wraps one that a program already holds."""

    __slots__ = ("_source", "_value")

    def __init__(self, source: str, value: str | None = None) -> None:
        self._source = source
        self._value = value

    @classmethod
    def of(cls, value: str) -> "Secret":
        """Wrap a value that the program holds, for example from a vault."""
        return cls("held by the program", value)

    @classmethod
    def parse(cls, reference: Any, base: Path = Path()) -> "Secret":
        """Accept `env:NAME` and `file:PATH` only, so that no secret is in a project file."""
        if isinstance(reference, Secret):
            return reference
        kind, _, name = str(reference).partition(":")
        if not isinstance(reference, str) or kind not in {"env", "file"} or not name:
            raise ValueError("a secret is not written here: name it as env:NAME or file:PATH")
        return cls(reference if kind == "env" else f"file:{base / _expanded(Path(name))}")

    @property
    def source(self) -> str:
        """Return where the value is kept: `env:NAME` or `file:PATH`."""
        return self._source

    def reveal(self) -> str:
        """Read the value now."""
        if self._value is not None:
            return self._value
        kind, _, name = self._source.partition(":")
        if kind == "env":
            value = os.environ.get(name)
            if not value:
                raise NotFound(f"the environment variable {name}, which should hold a secret, is not set")
            return value
        try:
            value = Path(name).read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise NotFound(f"the secret file {name} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise BadInput(f"the secret file {name} is not text") from None
        if not value:
            raise BadInput(f"the secret file {name} is empty")
        return value

    def __reduce__(self) -> "tuple[type[Secret], tuple[str]]":
        """Travel by name only, to processes of this user on this machine: what is pickled may come to lie anywhere."""
        return Secret, (self._source if self._value is None else f"file:{_in_memory(self._value)}",)

    def __deepcopy__(self, _memo: object) -> "Secret":
        return self

    def __repr__(self) -> str:
        return f"Secret({self._source})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and (self._source, self._value) == (other._source, other._value)

    def __hash__(self) -> int:
        return hash(self._source)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(
            lambda value, info: cls.parse(value, base_folder(info)),
            serialization=core_schema.plain_serializer_function_ser_schema(str),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "pattern": "^(env|file):.+"}
