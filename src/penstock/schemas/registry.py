"""A schema registry as files and programs name it: an address and a login."""

import ssl
from collections.abc import Callable
from typing import Annotated, Any, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from penstock.errors import BadInput
from penstock.loopback import is_loopback
from penstock.secret import PathFromFile, Secret

Model = TypeVar("Model", bound=BaseModel)
_PROJECT = "project"
_NO_PEM = {None, "PEM lib", "BAD_DECRYPT", "NO_START_LINE", "NO_CERTIFICATE_OR_CRL_FOUND"}


class Registry(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """A schema registry with Confluent's API. In a file, its address alone is enough."""

    url: str = Field(
        description="Address of the API, such as `http://127.0.0.1:8081`, with the path if it has one; or `project`:"
        " the registry that commands of the project ask."
    )
    username: str | None = Field(None, description="User name, for a registry that asks for one.")
    password: Secret | None = Field(None, description="That user's password.")
    token: Secret | None = Field(None, description="Bearer token, instead of user name and password.")
    ca_file: PathFromFile | None = Field(
        None, description="Certificates to trust, as PEM; those of the system if left out."
    )
    certificate_file: PathFromFile | None = Field(
        None, description="Certificate that this client shows, as PEM, for mutual TLS."
    )
    key_file: PathFromFile | None = Field(None, description="Private key of that certificate, as PEM.")
    key_password: Secret | None = Field(None, description="Password of the private key, if it has one.")

    @model_validator(mode="before")
    @classmethod
    def _address_is_enough(cls, value: Any) -> Any:
        return {"url": value} if isinstance(value, str) else value

    @field_validator("url")
    @classmethod
    def _address_is_plain(cls, value: str) -> str:
        if value == _PROJECT:
            return value
        try:
            parts = urlsplit(value)
            has_host = bool((parts.hostname or "").encode("idna")) and parts.port != 0
        except ValueError:  # a host or a port that can be none
            has_host = False
        is_plain = has_host and parts.path.isascii() and parts.path.isprintable() and " " not in parts.path
        if not is_plain or parts.scheme not in {"http", "https"} or parts.query or parts.fragment:
            raise ValueError("the address of a registry is like http://127.0.0.1:8081 or https://host/path")
        # A password with a slash ends the host early, and its rest is part of the path.
        if "@" in parts.netloc + parts.path:
            raise ValueError("a login does not stand in the address: name it with `username` and `password`")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _login_is_whole(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("`username` and `password` belong together")
        if self.username is not None and self.token is not None:
            raise ValueError("give `username` and `password`, or `token`, not both")
        if self.certificate_file is None and self.key_file is not None:
            raise ValueError("`key_file` needs `certificate_file`")
        if self.is_project and any(value is not None for name, value in self if name != "url"):
            raise ValueError("the project's registry has its own login: give the address, too, or `project` alone")
        if self.url.startswith("http:") and (self.ca_file or self.certificate_file):
            raise ValueError("certificates are for an address that begins with https")
        parts = urlsplit(self.url)
        if (self.username or self.token) and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ValueError("a login is not sent where everybody on the way can read it: use an https address")
        return self

    @property
    def is_project(self) -> bool:
        """Whether this stands for the registry of the project that a pipeline is run in."""
        return self.url == _PROJECT

    @property
    def knows_clients(self) -> bool:
        """Whether clients have an identity at the registry, by a login or a certificate."""
        return any((self.username, self.token, self.certificate_file))

    def __str__(self) -> str:
        """Return the address, which holds no secret."""
        return self.url

    def tls(self) -> ssl.SSLContext | None:
        """Return how TLS is spoken; None without TLS."""
        if not self.url.startswith("https:"):
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file is not None:
                password = self.key_password.reveal() if self.key_password is not None else ""
                context.load_cert_chain(self.certificate_file, self.key_file, password=password)
        except (OSError, ValueError) as error:
            files = ", ".join(str(each) for each in (self.ca_file, self.certificate_file, self.key_file) if each)
            raise BadInput(f"the certificates for {self.url} cannot be used ({files}): {_why(error)}") from None
        return context


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    if reason == "KEY_VALUES_MISMATCH":
        return "the private key is not the one of the certificate"
    if isinstance(error, ssl.SSLError) and reason in _NO_PEM:
        return "one is not a PEM file, or the password does not open the private key"
    return getattr(error, "strerror", None) or str(error)


class _AddressIsEnough:
    """Lets editors accept a plain text there, too."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string"}, handler(schema)]}


NamedRegistry = Annotated[Registry, _AddressIsEnough()]
"""A registry in a file: its address, or a mapping with a login."""


def project_registry() -> Registry:
    """Return what stands for the registry of the project that a pipeline is run in."""
    return Registry(url=_PROJECT)


def with_registry(model: Model, find: Callable[[], Registry]) -> Model:
    """Return a model with the project's registry wherever one stands for it; it is looked for only then."""
    filled: Model = _filled(model, find)
    return filled


def _filled(value: Any, find: Callable[[], Registry]) -> Any:
    if isinstance(value, Registry):
        return find() if value.is_project else value
    if isinstance(value, BaseModel):
        changed = {name: _filled(each, find) for name, each in value}
        differing = {name: each for name, each in changed.items() if each is not getattr(value, name)}
        return value.model_copy(update=differing) if differing else value
    if isinstance(value, list | tuple):
        listed = [_filled(each, find) for each in value]
        return value if all(one is each for one, each in zip(listed, value, strict=True)) else type(value)(listed)
    return value
