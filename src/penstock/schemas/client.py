"""Asking a schema registry, in Confluent's API.

What an id means never changes, so it is asked for once. A registry that does not answer, breaks off or takes too long
is `RegistryUnavailable`, and may be asked again; one that answers what no registry would is `BadInput`. `NotFound` is
only what a registry says itself, for records become dead letters by it. No answer and no login comes into an error
whole, and no redirect is followed, for it could carry the login elsewhere.
"""

import base64
import functools
import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import orjson
from pydantic import ValidationError

from penstock.errors import BadInput, Conflict, EnvironmentNotReady, NotFound, Refused, RegistryUnavailable
from penstock.schemas.formats import Level
from penstock.schemas.registry import Registry
from penstock.schemas.schema import Reference, Schema, SchemaVersion
from penstock.wording import nearest

Item = TypeVar("Item")
_TIMEOUT_S = 10.0
_LONGEST_S = 30.0
"""For one answer as a whole: whoever sends a byte now and then never times out."""
_MOST_BYTES = 20_000_000
_LONGEST_WORDS = 300
_LONGEST_CHAIN = 100
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_ACCEPT = f"{_CONTENT_TYPE}, application/vnd.schemaregistry+json, application/json"
_MAY_PASS = {http.client.REQUEST_TIMEOUT, http.client.TOO_EARLY, http.client.TOO_MANY_REQUESTS}
_REDIRECTS = {301, 302, 303, 307, 308}
_NOT_FOUND_CODES = range(40400, 40500)
"""No such subject, version, schema, level. To a path that it does not have, a registry says 404."""


class RegistryClient:
    """One registry. Thread-safe."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._schemas: dict[int, Schema] = {}
        self._lock = threading.Lock()

    def subjects(self) -> list[str]:
        """Return the subjects, in order."""
        return sorted(_listed(self, self._ask("GET", "/subjects", list), str))

    def versions(self, subject: str) -> list[int]:
        """Return the versions of a subject, oldest first."""
        try:
            return sorted(_listed(self, self._ask("GET", f"/subjects/{_part(subject)}/versions", list), int))
        except NotFound as error:
            raise self._missing(subject) or error from None

    def version(self, subject: str, version: int | None = None) -> SchemaVersion:
        """Return one version of a subject; the latest if none is named."""
        named = "latest" if version is None else version
        try:
            return _version_of(self, self._ask("GET", f"/subjects/{_part(subject)}/versions/{named}", dict))
        except NotFound as error:
            raise self._missing(subject, version) or error from None

    def _missing(self, subject: str, version: int | None = None) -> NotFound | None:
        """Return what is not there, a subject or a version of one, and what is; None if that is not known either."""
        known = self.subjects()
        if subject not in known:
            close = nearest(subject, known)
            fix = f"Did you mean '{close}'?" if close else "List subjects with: penstock schema list"
            return NotFound(f"{self.registry} has no subject '{subject}'", fix=fix)
        if version is None:
            return None
        there = ", ".join(map(str, self.versions(subject)))
        return NotFound(f"'{subject}' has no version {version}; it has {there}", fix="Leave it out for the latest")

    def schema(self, schema_id: int) -> Schema:
        """Return what an id means; raise `NotFound` if the registry does not know it."""
        known = self._schemas.get(schema_id)
        if known is None:
            known = _schema_of(self, self._ask("GET", f"/schemas/ids/{schema_id}", dict))
            with self._lock:
                self._schemas[schema_id] = known
        return known

    def referred(self, schema: Schema) -> dict[str, Schema]:
        """Return every schema that one refers to, also through others, by the reference's name; used ones first.

        Raise `ValueError` if that has no end: it is of whoever registered it, and no answer of the registry.
        """
        found: dict[str, Schema] = {}
        self._refer(schema, found, frozenset())
        return found

    def _refer(self, schema: Schema, found: dict[str, Schema], above: frozenset[str]) -> None:
        for each in schema.references:
            if each.name in above:
                raise ValueError(f"the schema '{each.name}' refers to itself through its references")
            if len(above) >= _LONGEST_CHAIN:
                raise ValueError(f"its references lead on through more than {_LONGEST_CHAIN} schemas")
            if each.name not in found:
                one = self.version(each.subject, each.version).definition
                self._refer(one, found, above | {each.name})
                found[each.name] = one

    def register(self, subject: str, schema: Schema) -> int:
        """Add a schema to a subject, and return its id; one that is there already keeps the id that it has."""
        answer = self._ask("POST", f"/subjects/{_part(subject)}/versions", dict, _body(schema))
        return _number(self, answer, "id")

    def find(self, subject: str, schema: Schema) -> SchemaVersion | None:
        """Return a schema as the subject holds it; None if it does not."""
        try:
            answer = self._ask("POST", f"/subjects/{_part(subject)}", dict, _body(schema))
        except NotFound:
            return None
        return _version_of(self, answer)

    def is_compatible(self, subject: str, schema: Schema) -> tuple[bool, list[str]]:
        """Return whether the subject would take a schema as its next version, and what the registry says against it."""
        path = f"/compatibility/subjects/{_part(subject)}/versions?verbose=true"
        answer = self._ask("POST", path, dict, _body(schema))
        verdict, messages = answer.get("is_compatible"), answer.get("messages") or []
        if not isinstance(verdict, bool) or not isinstance(messages, list):
            raise nonsense(self, "no `is_compatible` in an answer that should hold it")
        return verdict, [str(each) for each in messages]

    def compatibility(self, subject: str | None = None) -> tuple[Level, bool]:
        """Return the compatibility level that applies to a subject, and whether the subject sets it itself."""
        if subject is not None:
            try:
                return self._level(self._ask("GET", f"/config/{_part(subject)}", dict)), True
            except NotFound:
                pass
        return self._level(self._ask("GET", "/config", dict)), False

    def set_compatibility(self, level: Level, subject: str | None = None) -> None:
        """Set the level of a subject; without one, the registry's, for all subjects that set none."""
        path = "/config" if subject is None else f"/config/{_part(subject)}"
        self._ask("PUT", path, dict, {"compatibility": level})

    def delete(self, subject: str, version: int | None = None, *, permanent: bool = False) -> list[int]:
        """Delete a version, or all; ids stay known, unless it is done once more with `permanent`."""
        path = f"/subjects/{_part(subject)}" + ("" if version is None else f"/versions/{version}")
        answer = self._ask("DELETE", path + ("?permanent=true" if permanent else ""), object)
        return sorted(_listed(self, answer if isinstance(answer, list) else [answer], int))

    def _level(self, answer: dict[str, Any]) -> Level:
        found = answer.get("compatibilityLevel", answer.get("compatibility"))
        if not isinstance(found, str):
            raise nonsense(self, "a compatibility that is none")
        level: Level = found  # type: ignore[assignment]  # whatever it says is shown
        return level

    def _ask(self, method: str, path: str, kind: type[Any], body: dict[str, Any] | None = None) -> Any:
        status, content = self._exchange(method, path, None if body is None else orjson.dumps(body))
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError:
            answer = None
        if status == http.client.OK and isinstance(answer, kind) and answer is not None:
            return answer
        raise self._failure(status, answer)

    def _exchange(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        parts = urlsplit(self.registry.url)
        host, tls = parts.hostname or "", self._tls()
        connection = (
            http.client.HTTPConnection(host, parts.port, timeout=_TIMEOUT_S)
            if tls is None
            else http.client.HTTPSConnection(host, parts.port, timeout=_TIMEOUT_S, context=tls)
        )
        headers = self._headers(has_body=body is not None)
        try:
            with _at_most(connection, _LONGEST_S):
                connection.request(method, parts.path + path, body, headers)
                response = connection.getresponse()
                content = response.read(_MOST_BYTES + 1)
            if response.length and len(content) <= _MOST_BYTES:
                raise http.client.IncompleteRead(content, response.length)
        except (OSError, http.client.HTTPException) as error:
            refused = _refused_tls(connection, error)
            if refused is None:
                raise RegistryUnavailable(
                    f"the schema registry at {self.registry} does not answer: {_why(error)}",
                    fix="Start the project's own with: penstock up registry; of another one, check the address",
                ) from None
            raise Refused(
                f"the schema registry at {self.registry} and this client do not agree on TLS: {_reason(refused)}",
                fix="Check `ca_file` and `certificate_file`",
            ) from None
        except ValueError:  # of a header, and http.client shows it
            raise BadInput(
                f"the login of {self.registry} cannot be sent: it has letters that no header holds"
            ) from None
        finally:
            connection.close()
        if len(content) > _MOST_BYTES:
            raise nonsense(self, f"more than {_MOST_BYTES} bytes")
        if (elsewhere := response.headers.get("Location")) and response.status in _REDIRECTS:
            raise nonsense(self, f"it sends clients to {_origin(elsewhere)}, which are not followed there")
        return response.status, content

    def _tls(self) -> ssl.SSLContext | None:
        with self._login_is_there():
            return self.registry.tls()

    @contextmanager
    def _login_is_there(self) -> Iterator[None]:
        try:
            yield
        except NotFound as error:
            # Not as something that is not found: a schema is not unknown because nobody could ask for it.
            raise EnvironmentNotReady(f"the login of {self.registry} is not there: {error.what}") from None

    def _headers(self, *, has_body: bool) -> dict[str, str]:
        headers = {"Accept": _ACCEPT}
        if has_body:
            headers["Content-Type"] = _CONTENT_TYPE
        with self._login_is_there():
            if self.registry.token is not None:
                headers["Authorization"] = f"Bearer {self.registry.token.reveal()}"
            elif self.registry.username is not None and self.registry.password is not None:
                login = f"{self.registry.username}:{self.registry.password.reveal()}"
                headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        return headers

    def _failure(self, status: int, answer: Any) -> Exception:
        code = answer.get("error_code") if isinstance(answer, dict) else None
        said = str(answer.get("message", ""))[:_LONGEST_WORDS] if isinstance(answer, dict) else ""
        where = f"the schema registry at {self.registry}"
        if status in {http.client.UNAUTHORIZED, http.client.FORBIDDEN}:
            login = "this client in" if status == http.client.UNAUTHORIZED else "this client do that"
            return Refused(f"{where} does not let {login}", fix="Check the user name, password or token")
        if status in _MAY_PASS or status >= http.client.INTERNAL_SERVER_ERROR:
            return RegistryUnavailable(f"{where} answers with an error of its own ({status}) {said}".rstrip())
        if status == http.client.NOT_FOUND and code in _NOT_FOUND_CODES:
            return NotFound(f"{where} says: {said or code}", fix="List subjects with: penstock schema list")
        if status == http.client.CONFLICT:
            return Conflict(f"{where} refuses the schema: {said}", safe="Nothing was registered")
        if status in {http.client.BAD_REQUEST, http.client.UNPROCESSABLE_ENTITY} and code is not None:
            return BadInput(f"{where} says: {said or code}")
        return nonsense(self, f"status {status}")


@functools.cache
def client_of(registry: Registry) -> RegistryClient:
    """Return the client of a registry; in one process there is one, so that what it has learned is asked once."""
    if registry.is_project:
        raise NotFound("no schema registry is named, and no project that has one", fix="Name its address as `registry`")
    return RegistryClient(registry)


def nonsense(client: RegistryClient, what: str) -> BadInput:
    """Return the error for an answer that no registry gives."""
    return BadInput(
        f"{client.registry} does not answer as a schema registry does: {what}",
        fix="Check the address, and whether a path belongs to it",
    )


@contextmanager
def _at_most(connection: http.client.HTTPConnection, seconds: float) -> Iterator[None]:
    """Limit an exchange as a whole, whatever its parts take; raise `TimeoutError`."""
    too_long = threading.Event()
    opened = list[socket.socket]()

    def give_up() -> None:
        too_long.set()
        for each in opened or ([connection.sock] if connection.sock else []):
            with suppress(OSError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)  # TLS of its own would wait for an answer

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        opened.append(connection.sock)  # a connection lets go of it before the answer is read
        yield
    except (OSError, http.client.HTTPException):
        if too_long.is_set():
            raise TimeoutError(f"it took longer than {seconds:g} seconds") from None
        raise
    finally:
        timer.cancel()
    if too_long.is_set():
        raise TimeoutError(f"it took longer than {seconds:g} seconds")


def _refused_tls(connection: http.client.HTTPConnection, error: Exception) -> ssl.SSLError | None:
    """Return why TLS was refused; None if that is not why it failed.

    A server that does not like a client's certificate says so and closes the connection. Whoever is still writing then
    learns that it is closed, and only by reading why.
    """
    if isinstance(error, ssl.SSLError) and not _connection_ended(error):
        return error
    if isinstance(error, ssl.SSLError | ConnectionError) and isinstance(connection.sock, ssl.SSLSocket):
        try:
            connection.sock.recv(1)
        except ssl.SSLError as alert:
            return None if _connection_ended(alert) else alert
        except OSError:
            return None
    return None


def _connection_ended(error: Exception) -> bool:
    """Return whether a connection just ended; some Pythons say that by an error without a reason."""
    return isinstance(error, ssl.SSLEOFError) or (
        isinstance(error, ssl.SSLError) and error.reason in {None, "UNEXPECTED_EOF_WHILE_READING"}
    )


def _why(error: Exception) -> str:
    if isinstance(error, http.client.IncompleteRead):
        return "it closed the connection in the middle of an answer"
    if isinstance(error, http.client.RemoteDisconnected) or _connection_ended(error):
        return "it closed the connection"
    if isinstance(error, TimeoutError):
        return next((each for each in error.args if isinstance(each, str) and each.startswith("it ")), "time ran out")
    return getattr(error, "strerror", None) or type(error).__name__


def _origin(address: str) -> str:
    """Return the part of an address that tells where it is, and holds no secret."""
    try:
        parts = urlsplit(address)
        return (
            f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
            if parts.hostname
            else "a path"
        )
    except ValueError:
        return "an address that is none"


def _listed(client: RegistryClient, answer: list[Any], kind: type[Item]) -> list[Item]:
    if not all(isinstance(each, kind) for each in answer):
        raise nonsense(client, "a list of something else")
    return answer


def _part(name: str) -> str:
    return quote(name, safe="")


def _reason(error: ssl.SSLError) -> str:
    return getattr(error, "verify_message", "") or error.reason or "no reason given"


def _body(schema: Schema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.format != "AVRO":
        body["schemaType"] = schema.format
    if schema.references:
        body["references"] = [each.model_dump() for each in schema.references]
    return body


def _schema_of(client: RegistryClient, answer: dict[str, Any]) -> Schema:
    try:
        references = tuple(Reference.model_validate(each) for each in answer.get("references") or ())
        return Schema(
            text=answer.get("schema"),
            format=answer.get("schemaType") or "AVRO",
            references=references,
        )
    except (ValidationError, TypeError):
        raise nonsense(client, "no schema in an answer that should hold one") from None


def _number(client: RegistryClient, answer: dict[str, Any], name: str) -> int:
    found = answer.get(name)
    if not isinstance(found, int):
        raise nonsense(client, f"no `{name}` in an answer that should hold one")
    return found


def _version_of(client: RegistryClient, answer: dict[str, Any]) -> SchemaVersion:
    return SchemaVersion(
        subject=str(answer.get("subject", "")),
        version=_number(client, answer, "version"),
        id=_number(client, answer, "id"),
        definition=_schema_of(client, answer),
    )
