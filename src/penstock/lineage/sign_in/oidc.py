"""Sign-in by an OpenID provider: authorization code flow with state, nonce and PKCE.

What is believed: an identity token that the provider's published keys have signed, for this client, with the nonce of
this sign-in. Nothing goes over a plain connection except to this machine.
"""

import base64
import hashlib
import hmac
import http.client
import json
import secrets
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import jwt
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from penstock.config.complaints import in_words
from penstock.errors import BadInput, NotFound, Refused, SinkUnavailable, Transient
from penstock.loopback import is_loopback
from penstock.quantities import DurationMs
from penstock.secret import Secret

_NO_ANSWER = (OSError, ValueError, http.client.HTTPException, RecursionError)
"""What is raised where a provider is away, or what answers in its place speaks no HTTP or no JSON."""
_TIMEOUT_S = 10
MOST_AT_ONCE = 8
"""Requests that may wait for the provider. One that hangs so does not hold all threads, which other requests need."""
_MOST_BYTES = 1024 * 1024
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
_LEEWAY_S = 30
_HOUR_MS = 3_600_000
DAY_MS = 24 * _HOUR_MS
ACCOUNT = "oidc"
"""Account of whoever signs in by the provider, whose names are never given to another."""


class OidcSettings(BaseModel):
    """The client that this service is to an OpenID provider."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: str = Field(description="Address of the provider, to the letter as its tokens name it.")
    client_id: str = Field(min_length=1, description="Id of this client.")
    client_secret: Secret = Field(description="Secret of this client: `env:NAME` or `file:PATH`.")
    redirect_url: str = Field(description="Where the provider sends people back to; ends with /v1/auth/callback.")
    scope: str = Field(default="openid profile", description="What is asked for; `openid` is needed.")
    user_claim: str = Field(
        default="sub",
        description="The claim that has the user's name; of all, providers keep only `sub` for one person.",
    )
    users: tuple[str, ...] | None = Field(default=None, description="Who gets in, by `user_claim`.")
    claims: dict[str, str] = Field(
        default={},
        description="Claims that a user's token must have, such as `groups: lineage`; of a list one is enough.",
    )
    everybody: bool = Field(default=False, description="Let in whoever has an account at the provider.")
    session_max_age: DurationMs = Field(
        default=_HOUR_MS,
        ge=60_000,
        le=10 * _HOUR_MS,
        description="How long a sign-in counts: then the provider is asked again who gets in. Ten hours at most.",
    )
    token_max_age: DurationMs = Field(
        default=30 * DAY_MS,
        ge=DAY_MS,
        le=366 * DAY_MS,
        description="How long personal tokens count at most: nobody is told when their users lose what lets them in.",
    )

    @field_validator("issuer", "redirect_url")
    @classmethod
    def _is_safe(cls, url: str) -> str:
        require_safe(url)
        return url

    @model_validator(mode="after")
    def _says_who_gets_in(self) -> Self:
        if self.everybody == bool(self.users or self.claims):
            raise ValueError("say who gets in, by `users` or `claims`, or with `everybody: true`")
        return self

    def lets_in(self, user: str) -> bool:
        """Return whether somebody whom the provider knows gets in, as far as the name decides it."""
        return not self.users or user in self.users


def load(path: Path) -> OidcSettings:
    """Read the settings from a YAML file; a secret in it is only named."""
    try:
        return OidcSettings.model_validate(yaml.safe_load(path.read_text("utf-8")), context={"base": path.parent})
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise BadInput(f"{path} is not YAML") from None
    except ValidationError as error:
        found = [f"{'.'.join(map(str, each['loc']))}: {in_words(each)}" for each in error.errors()]
        raise BadInput(f"{path}: {'; '.join(found)}") from None


def require_safe(url: str) -> None:
    """Raise `ValueError` unless what is sent there stays secret: https, or this machine."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        return
    raise ValueError("an address of https is needed; http only on this machine")


class Begun(NamedTuple):
    """A sign-in on its way: where to go, and what has to come back."""

    url: str
    state: str
    nonce: str
    verifier: str


class Provider:
    """One OpenID provider. What it publishes about itself is asked for once, its keys whenever an unknown one signs."""

    def __init__(self, settings: OidcSettings) -> None:
        self.settings = settings
        self._known: dict[str, Any] | None = None
        self._keys: jwt.PyJWKClient | None = None
        self._places = threading.Semaphore(MOST_AT_ONCE)

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold one of the places of those who wait for the provider; raise `Transient` if all are taken."""
        if not self._places.acquire(blocking=False):
            raise Transient(
                "too many people sign in by the provider at once", safe="Nothing was asked", fix="Try again in a moment"
            )
        try:
            yield
        finally:
            self._places.release()

    def begin(self) -> Begun:
        """Begin a sign-in."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.redirect_url,
            "scope": self.settings.scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        with self.place():
            address = self._endpoint("authorization_endpoint")
        return Begun(f"{address}?{urllib.parse.urlencode(query)}", state, nonce, verifier)

    def finish(self, *, code: str, state: str, begun: dict[str, Any]) -> str:
        """Return the name of who has signed in; raise `Refused` if anything about it is not as it was begun."""
        if not hmac.compare_digest(state.encode(), str(begun.get("state", "")).encode()):
            raise Refused("The sign-in was not begun here")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.settings.redirect_url,
            "code_verifier": str(begun.get("verifier", "")),
        }
        with self.place():
            answer = _fetch(self._endpoint("token_endpoint"), form=form, login=self._login())
            return self._user(str(answer.get("id_token", "")), str(begun.get("nonce", "")))

    def _user(self, id_token: str, nonce: str) -> str:
        try:
            key = self._key_client().get_signing_key_from_jwt(id_token)
            claims = jwt.decode(
                id_token,
                key,
                algorithms=_ALGORITHMS,
                audience=self.settings.client_id,
                issuer=self.settings.issuer,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWKClientConnectionError, *_NO_ANSWER):
            raise SinkUnavailable("the OpenID provider does not answer") from None
        except jwt.PyJWTError:
            raise Refused("The provider's token is not accepted") from None
        if not nonce or not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise Refused("The provider's token is of another sign-in")
        user = claims.get(self.settings.user_claim)
        if not isinstance(user, str) or not user.isprintable():
            raise Refused("The provider's token has no name of a user")
        if not self.settings.lets_in(user) or not self._has_claims(claims):
            raise Refused("Your account at the provider is not let in here")
        return user

    def _has_claims(self, claims: dict[str, Any]) -> bool:
        for name, wanted in self.settings.claims.items():
            found = claims.get(name)
            if wanted not in (found if isinstance(found, list) else [found]):
                return False
        return True

    def _key_client(self) -> jwt.PyJWKClient:
        if self._keys is None:
            self._keys = jwt.PyJWKClient(self._endpoint("jwks_uri"), timeout=_TIMEOUT_S)
        return self._keys

    def _endpoint(self, name: str) -> str:
        if self._known is None:
            known = _fetch(self.settings.issuer.rstrip("/") + "/.well-known/openid-configuration")
            if known.get("issuer") != self.settings.issuer:
                raise Refused("The OpenID provider calls itself otherwise than `issuer` does")
            self._known = known
        url = str(self._known.get(name, ""))
        try:
            require_safe(url)
        except ValueError:
            raise Refused(f"The OpenID provider has no safe {name}") from None
        return url

    def _login(self) -> str:
        pair = (self.settings.client_id, self.settings.client_secret.reveal())
        return base64.b64encode(":".join(map(urllib.parse.quote_plus, pair)).encode()).decode()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Nobody sends our secret on to another place."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none."""


_opener = urllib.request.build_opener(_NoRedirect)


def _fetch(url: str, form: dict[str, str] | None = None, login: str | None = None) -> dict[str, Any]:
    """Ask the provider; the address is one that `require_safe` has seen."""
    data = urllib.parse.urlencode(form).encode() if form is not None else None
    request = urllib.request.Request(url, data, {"Accept": "application/json"})  # noqa: S310 - http or https only
    if login is not None:
        request.add_unredirected_header("Authorization", f"Basic {login}")
    try:
        with _opener.open(request, timeout=_TIMEOUT_S) as response:
            answer = json.loads(response.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        error.close()
        raise Refused(f"The OpenID provider refused, with status {error.code}") from None
    except _NO_ANSWER:
        raise SinkUnavailable("the OpenID provider does not answer, or not with JSON") from None
    if not isinstance(answer, dict):
        raise Refused("The OpenID provider answered something else than an object")
    return answer
