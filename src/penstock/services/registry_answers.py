"""Apicurio's answers, made those of Confluent's registry where clients would trip over the difference.

Nothing is decided here: schemas are kept, compared and numbered by Apicurio. What differs otherwise, and is adapted:
error codes and messages of refused schemas and versions; reasons in a verbose check; a subject without settings of its
own has none (40408); equal Avro schemas that are written differently have one id; what `/schemas` lists has names.
"""

import re
from typing import Any
from urllib.parse import parse_qs, quote, unquote

import httpx
import orjson
from starlette.requests import Request
from starlette.responses import Response

from penstock.services.avro_text import plain_avro
from penstock.services.forwarding import handed_on, headers_of, raw_path

_API = "/apis/ccompat/v7"
_NATIVE = "/apis/registry/v3/groups/default/artifacts"
_JSON = "application/vnd.schemaregistry.v1+json"
_VERSION = re.compile(r"/(?:compatibility/)?subjects/([^/]+)/versions/(?P<version>[^/]+)(?:/.*)?")
_CHECK = re.compile(r"/compatibility/subjects/(?P<subject>[^/]+)/versions(?:/[^/]+)?")
_REGISTER = re.compile(r"/subjects/(?P<subject>[^/]+)/versions")
_LOOKUP = re.compile(r"/subjects/([^/]+)")
_CONFIG = re.compile(r"/config/(?P<subject>[^/]+)")
_LAST_VERSION = 2**31 - 1
_NUMBER = re.compile(r"-?[0-9]{1,10}")
_TAKES_SCHEMA = re.compile(r"/(?:compatibility/)?subjects/.*")
_OK, _NOT_FOUND, _CONFLICT, _UNPROCESSABLE = 200, 404, 409, 422
_NOT_DELETED_YET = {40405, 40407}
_INVALID_SCHEMA = 42201
_SCHEMA_NOT_FOUND = 40403
_IS_JSON = {"Content-Type": "application/json"}


class RegistryAnswers:
    """Forwards requests to Apicurio and adapts its responses."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def answer(self, request: Request, body: bytes) -> Response:
        """Answer one request as Confluent's registry would."""
        path = raw_path(request)
        if path.startswith("/apis/"):  # Apicurio's own interface, for its own clients
            answer = await handed_on(self._client, request, body, path=path)
            return Response(answer.content, status_code=answer.status_code, headers=headers_of(answer))
        path = path.rstrip("/")
        if not path:
            return _written(_OK, {})
        if path == "/v1/metadata/version":
            return _written(_OK, {"version": "7.0.0", "commitId": ""})
        found = _VERSION.fullmatch(path)
        if found and not _is_version(unquote(found["version"])):
            return _error(
                _UNPROCESSABLE,
                42202,
                f"The specified version '{unquote(found['version'])}' is not a valid version id. Allowed values are"
                ' between [1, 2^31-1] and the string "latest"',
            )
        query = {name.lower(): values[-1].lower() for name, values in parse_qs(request.url.query).items()}
        if path == "/schemas" and request.method == "GET":
            if not all(_NUMBER.fullmatch(query.get(name, "0")) for name in ("offset", "limit")):
                return _error(_NOT_FOUND, _NOT_FOUND, "HTTP 404 Not Found")  # as Confluent's registry has it
            return _written(_OK, await self._schemas(request, query))
        if request.method == "POST" and _TAKES_SCHEMA.fullmatch(path):
            body = _with_plain_schema(body)
        answer = await handed_on(
            self._client, request, body, path=_API + path, query=_lowered_booleans(request.url.query)
        )
        return await self._adapted(request.method, path, query, body, answer)

    async def _adapted(
        self, method: str, path: str, query: dict[str, str], body: bytes, answer: httpx.Response
    ) -> Response:
        said = _json(answer)
        if method == "POST" and (found := _REGISTER.fullmatch(path)) and answer.status_code == _CONFLICT:
            reasons = await self._reasons(found["subject"], body) or [str((said or {}).get("message", ""))]
            return _error(
                _CONFLICT,
                _CONFLICT,  # as Confluent's registry has it, and its clients' tests; not 40901
                "Schema being registered is incompatible with an earlier schema for subject"
                f' "{unquote(found["subject"])}", details: [{", ".join(reasons)}]',
            )
        if (found := _CHECK.fullmatch(path)) and isinstance(said, dict) and said.get("is_compatible") is False:
            wanted = query.get("verbose") == "true"
            more = {"messages": await self._reasons(found["subject"], body)} if wanted else {}
            return _written(_OK, {"is_compatible": False, **more})
        if method == "GET" and (found := _CONFIG.fullmatch(path)) and query.get("defaulttoglobal") != "true":
            own = await self._client.get(f"{_NATIVE}/{found['subject']}/rules/COMPATIBILITY")
            if own.status_code == _NOT_FOUND:
                subject = unquote(found["subject"])
                return _error(
                    _NOT_FOUND, 40408, f"Subject '{subject}' does not have subject-level compatibility configured"
                )
        if said is None:
            return _error(answer.status_code, answer.status_code, answer.text.strip() or answer.reason_phrase)
        code = said.get("error_code") if isinstance(said, dict) else None
        if method == "POST" and code == _SCHEMA_NOT_FOUND and _LOOKUP.fullmatch(path):
            # Apicurio looks the text up and says no; whether it is a schema at all, it tells when it compares.
            compared = _json(
                await self._client.post(f"{_API}/compatibility{path}/versions/latest", content=body, headers=_IS_JSON)
            )
            if isinstance(compared, dict) and compared.get("error_code") == _INVALID_SCHEMA:
                code, said = _INVALID_SCHEMA, compared
        if code == _INVALID_SCHEMA:
            return _error(_UNPROCESSABLE, code, f"Invalid schema: {said.get('message', '')}")
        return _written(_NOT_FOUND if code in _NOT_DELETED_YET else answer.status_code, said)

    async def _reasons(self, subject: str, body: bytes) -> list[str]:
        """Return why a schema does not fit its subject: Apicurio tells that when it is asked to register on trial."""
        try:
            asked = orjson.loads(body)
            references = [
                {"artifactId": each["subject"], "version": str(each["version"]), "name": each["name"]}
                for each in asked.get("references") or []
            ]
            content = {"content": asked["schema"], "contentType": _content_type(asked), "references": references}
        except (ValueError, KeyError, TypeError):
            return []
        answer = await self._client.post(
            f"{_NATIVE}/{subject}/versions", params={"dryRun": "true"}, json={"content": content}
        )
        said = _json(answer)
        causes = said.get("causes") or [] if isinstance(said, dict) else []
        return [f"{each.get('description', '')} at {each.get('context', '')}" for each in causes]

    async def _schemas(self, request: Request, query: dict[str, str]) -> list[Any]:
        """List every version of every subject, with its names and its id."""
        prefix = parse_qs(request.url.query).get("subjectPrefix", [""])[-1].removeprefix(":*:")
        deleted = {"deleted": query.get("deleted", "false")}
        subjects = await self._client.get(f"{_API}/subjects", params=deleted)
        listed: list[Any] = []
        for subject in sorted(each for each in subjects.json() if each.startswith(prefix)):
            place = f"{_API}/subjects/{quote(subject, safe='')}/versions"
            versions = (await self._client.get(place, params=deleted)).json()
            chosen = versions[-1:] if query.get("latestonly") == "true" else versions
            for version in chosen if isinstance(chosen, list) else []:
                found = await self._client.get(f"{place}/{version}", params=deleted)
                if found.status_code == _OK:
                    listed.append(found.json())
        offset, limit = int(query.get("offset", "0")), int(query.get("limit", "-1"))
        return listed[offset:] if limit < 0 else listed[offset : offset + limit]


def _is_version(text: str) -> bool:
    if text in {"latest", "-1"}:
        return True
    return text.isascii() and text.isdigit() and 1 <= int(text) <= _LAST_VERSION


def _with_plain_schema(body: bytes) -> bytes:
    """Write an Avro schema in the one way in which equal ones are equal; everything else stays as it is."""
    try:
        asked = orjson.loads(body)
        if isinstance(asked, dict) and asked.get("schemaType", "AVRO") == "AVRO":
            asked["schema"] = plain_avro(asked["schema"])
            return orjson.dumps(asked)
    except (ValueError, KeyError, TypeError):
        pass  # Apicurio says what is wrong with it
    return body


def _content_type(asked: dict[str, Any]) -> str:
    return "application/x-protobuf" if asked.get("schemaType") == "PROTOBUF" else "application/json"


def _lowered_booleans(query: str) -> str:
    """Write `True` and `False`, as Python's client sends them, in small letters."""
    return re.sub(r"=(True|False)(?=&|$)", lambda found: found[0].lower(), query)


def _json(answer: httpx.Response) -> Any:
    try:
        return orjson.loads(answer.content)
    except ValueError:
        return None


def _error(status: int, code: int, message: str) -> Response:
    return _written(status, {"error_code": code, "message": message})


def _written(status: int, content: Any) -> Response:
    return Response(orjson.dumps(content), status_code=status, media_type=_JSON)
