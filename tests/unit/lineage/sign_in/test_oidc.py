"""Sign-in by an OpenID provider: a small one, which the test runs on this machine."""

import base64
import datetime
import hashlib
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI
from fastapi.testclient import TestClient

from penstock.errors import BadInput
from penstock.lineage.api.service import Service, SignIn
from penstock.lineage.sign_in import oidc
from penstock.lineage.sign_in.passwords import UsersFile
from penstock.lineage.sign_in.tokens import TokenKey
from penstock.secret import Secret
from penstock.testing import FakeClock

from support.lineage_rows import Rows

_SECRET = "canary-client-secret"
_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


class _TestProvider:
    """Gives one code for each sign-in, and an identity token for the code; `spoil` changes its claims."""

    def __init__(self) -> None:
        self.spoil: Callable[[dict[str, Any]], None] = lambda _: None
        self.key: Any = _KEY
        self.algorithm = "RS256"
        self.asked: dict[str, str] = {}
        self.raw: dict[str, bytes] = {}
        """What it sends instead, to the letter, to whoever asks for a place."""
        handler = self._handler()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def authorize(self, url: str) -> str:
        """Do as a person's browser does at the provider; return the code."""
        self.asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
        return "the-code"

    def _token(self, form: dict[str, str], login: str) -> dict[str, str] | None:
        expected = base64.b64encode(f"penstock:{_SECRET}".encode()).decode()
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (login, form.get("code"), challenge) != (f"Basic {expected}", "the-code", self.asked["code_challenge"]):
            return None
        now = datetime.datetime.now(datetime.UTC)
        claims = {
            "iss": self.issuer,
            "aud": "penstock",
            "sub": "4711",
            "preferred_username": "ann",
            "groups": ["house", "lineage"],
            "nonce": self.asked["nonce"],
            "iat": now,
            "exp": now + datetime.timedelta(minutes=5),
        }
        self.spoil(claims)
        return {"id_token": jwt.encode(claims, self.key, self.algorithm, headers={"kid": "one"})}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path in provider.raw:
                    self.wfile.write(provider.raw[self.path])
                elif self.path == "/keys":
                    key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(_KEY.public_key()))
                    self._say({"keys": [{**key, "kid": "one", "use": "sig", "alg": "RS256"}]})
                else:
                    places = {"authorization_endpoint": "/login", "token_endpoint": "/token", "jwks_uri": "/keys"}
                    said = {name: provider.issuer + place for name, place in places.items()}
                    self._say({"issuer": provider.issuer, **said})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                if self.path in provider.raw:
                    self.wfile.write(provider.raw[self.path])
                    return
                self._say(provider._token(dict(urllib.parse.parse_qsl(body)), self.headers.get("Authorization", "")))

            def _say(self, answer: Any) -> None:
                body = json.dumps(answer).encode()
                self.send_response(200 if answer else 400)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


@pytest.fixture
def provider() -> Iterator[_TestProvider]:
    provider = _TestProvider()
    yield provider
    provider.stop()


@pytest.fixture
def client(app_with_sign_in: FastAPI, rows: Rows, tmp_path: Path, provider: _TestProvider) -> TestClient:
    settings = oidc.OidcSettings(
        issuer=provider.issuer,
        client_id="penstock",
        client_secret=Secret.of(_SECRET),
        redirect_url="http://127.0.0.1:8000/v1/auth/callback",
        user_claim="preferred_username",
        users=("ann", "bob"),
        claims={"groups": "lineage"},
    )
    sign_in = SignIn(TokenKey.of(tmp_path), UsersFile.of(tmp_path), oidc.Provider(settings))
    app_with_sign_in.state.service = Service(rows.engine, sign_in)
    return TestClient(app_with_sign_in, base_url="http://127.0.0.1:8000", follow_redirects=False)


def _begin(client: TestClient, provider: _TestProvider) -> dict[str, str]:
    sent = client.get("/v1/auth/login")
    assert 303 == sent.status_code
    return {"code": provider.authorize(sent.headers["location"]), "state": provider.asked["state"]}


def test_a_browser_signs_in_by_the_provider_and_out_again(client: TestClient, provider: _TestProvider) -> None:
    before = client.get("/v1/users/me").json()["error"]
    back = client.get("/v1/auth/callback", params={**_begin(client, provider), "session_state": "the provider's"})
    cookie = back.headers["set-cookie"]

    assert ("auth_redirect", {"url": "/v1/auth/login"}) == (before["code"], before["details"])
    assert 204 == back.status_code
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert {"name": "ann"} == client.get("/v1/users/me").json()
    assert 204 == client.get("/v1/auth/logout").status_code
    assert 401 == client.get("/v1/users/me").status_code


def _now_and(**change: Any) -> Callable[[dict[str, Any]], None]:
    return lambda claims: claims.update(change)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_now_and(iss="http://127.0.0.1:1"), "The provider's token is not accepted"),
        (_now_and(aud="somebody-else"), "The provider's token is not accepted"),
        (_now_and(nonce="another"), "The provider's token is of another sign-in"),
        (lambda claims: claims.pop("nonce"), "The provider's token is of another sign-in"),
        (_now_and(exp=datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)), "The provider's token is not accepted"),
        (_now_and(preferred_username=["ann"]), "The provider's token has no name of a user"),
        (lambda claims: claims.pop("preferred_username"), "The provider's token has no name of a user"),
        (_now_and(preferred_username="eve"), "Your account at the provider is not let in here"),
        (_now_and(groups=["house"]), "Your account at the provider is not let in here"),
        (lambda claims: claims.pop("groups"), "Your account at the provider is not let in here"),
    ],
)
def test_a_token_that_is_not_for_this_sign_in_is_refused(
    client: TestClient, provider: _TestProvider, spoil: Callable[[dict[str, Any]], None], said: str
) -> None:
    provider.spoil = spoil

    answer = client.get("/v1/auth/callback", params=_begin(client, provider))

    assert (401, said) == (answer.status_code, answer.json()["error"]["message"])
    assert 401 == client.get("/v1/users/me").status_code


def test_a_session_ends_for_whom_the_settings_no_longer_name(
    client: TestClient, provider: _TestProvider, app_with_sign_in: FastAPI
) -> None:
    client.get("/v1/auth/callback", params=_begin(client, provider))
    before = client.get("/v1/users/me").status_code
    _with_settings(app_with_sign_in, users=("bob",))

    assert (200, 401) == (before, client.get("/v1/users/me").status_code)


def test_who_has_left_the_group_is_out_when_the_session_has_its_age(
    client: TestClient, provider: _TestProvider
) -> None:
    with FakeClock(datetime.datetime.now(datetime.UTC)) as standing:
        client.get("/v1/auth/callback", params=_begin(client, provider))
        provider.spoil = _now_and(groups=["house"])
        standing.sleep(59 * 60)
        before = client.get("/v1/users/me").status_code
        standing.sleep(2 * 60)
        after = client.get("/v1/users/me")
        again = client.get("/v1/auth/callback", params=_begin(client, provider))

    assert (200, 401) == (before, after.status_code)
    assert "Token has expired" == after.json()["error"]["message"]
    assert (401, "Your account at the provider is not let in here") == (
        again.status_code,
        again.json()["error"]["message"],
    )


def test_personal_tokens_of_the_providers_users_last_a_month_or_as_the_settings_say(
    client: TestClient, provider: _TestProvider, app_with_sign_in: FastAPI
) -> None:
    with FakeClock(datetime.datetime.now(datetime.UTC)) as standing:
        client.get("/v1/auth/callback", params=_begin(client, provider))
        made = client.post("/v1/personal-tokens", json={"name": "ci", "until": "2999-01-01"}).json()
        program = {"Authorization": f"Bearer {made['content']}"}
        standing.sleep(20 * 86_400)
        before = client.get("/v1/users/me", headers=program).status_code
        _with_settings(app_with_sign_in, token_max_age=10 * oidc.DAY_MS)
        shortened = client.get("/v1/users/me", headers=program)
        client.get("/v1/auth/callback", params=_begin(client, provider))
        listed = client.get("/v1/personal-tokens").json()["items"]
        next_one = client.post("/v1/personal-tokens", json={"name": "ci"}).json()["data"]

    days = [(_day(each["until"]) - _day(each["since"])).days for each in (made["data"], next_one)]
    assert [30, 10] == days
    assert (200, 401, []) == (before, shortened.status_code, listed)
    assert "Token has expired" == shortened.json()["error"]["message"]


def _day(text: str) -> datetime.date:
    return datetime.date.fromisoformat(text)


def _with_settings(app: FastAPI, **change: Any) -> None:
    """Have the service start again with other settings."""
    service: Service = app.state.service
    assert service.sign_in is not None
    assert service.sign_in.provider is not None
    settings = service.sign_in.provider.settings.model_copy(update=change)
    app.state.service = replace(service, sign_in=replace(service.sign_in, provider=oidc.Provider(settings)))


def test_a_token_that_others_signed_is_refused(client: TestClient, provider: _TestProvider) -> None:
    provider.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    assert 401 == client.get("/v1/auth/callback", params=_begin(client, provider)).status_code
    provider.key, provider.algorithm = "secret that is long enough for a digest", "HS256"
    assert 401 == client.get("/v1/auth/callback", params=_begin(client, provider)).status_code


def test_a_sign_in_that_was_not_begun_here_is_refused(client: TestClient, provider: _TestProvider) -> None:
    begun = _begin(client, provider)

    other = client.get("/v1/auth/callback", params={**begun, "state": "of somebody else"})
    client.cookies.clear()
    without_cookie = client.get("/v1/auth/callback", params=begun)

    assert (401, "The sign-in was not begun here") == (other.status_code, other.json()["error"]["message"])
    assert 401 == without_cookie.status_code


def test_a_provider_that_is_away_is_told_as_such(client: TestClient, provider: _TestProvider) -> None:
    provider.stop()

    answer = client.get("/v1/auth/login")

    assert (503, "unavailable") == (answer.status_code, answer.json()["error"]["code"])
    assert answer.json()["error"]["message"].startswith("The OpenID provider does not answer")
    assert answer.headers["retry-after"]


@pytest.mark.parametrize("place", ["/.well-known/openid-configuration", "/token", "/keys"])
@pytest.mark.parametrize(
    "sent",
    [
        b"gibberish\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 50\r\n\r\n[",
        b"HTTP/1.0 200 OK\r\n\r\n<html>",
        b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 100_000,
        b"HTTP/1.0 200 OK\r\n\r\n\xff",
    ],
    ids=["no HTTP", "cut off", "a page", "brackets without end", "no text"],
)
def test_a_provider_that_answers_nonsense_is_told_as_away(
    client: TestClient, provider: _TestProvider, place: str, sent: bytes
) -> None:
    begun = {} if place.startswith("/.") else _begin(client, provider)
    provider.raw[place] = sent

    answer = client.get("/v1/auth/callback", params=begun) if begun else client.get("/v1/auth/login")

    assert (503, "unavailable") == (answer.status_code, answer.json()["error"]["code"])


def test_settings_name_a_secret_and_places_that_keep_it(tmp_path: Path) -> None:
    file = tmp_path / "oidc.yaml"
    (tmp_path / "secret").write_text(_SECRET)
    client = "client_id: penstock\nclient_secret: file:secret\nusers: [ann]\n"
    good = f"issuer: https://id.example\nredirect_url: https://me/v1/auth/callback\n{client}"
    file.write_text(good)
    assert _SECRET == oidc.load(file).client_secret.reveal()

    file.write_text(good.replace("https://id", "http://id"))
    with pytest.raises(BadInput, match=r"issuer: .*https is needed"):
        oidc.load(file)
    file.write_text(good + "session_max_age: 30m\ntoken_max_age: 7d\n")
    assert (1_800_000, 7 * oidc.DAY_MS) == (oidc.load(file).session_max_age, oidc.load(file).token_max_age)
    file.write_text(good + "session_max_age: 11h\n")
    with pytest.raises(BadInput, match="session_max_age"):
        oidc.load(file)
    file.write_text(good.replace("users: [ann]", ""))
    with pytest.raises(BadInput, match=r"say who gets in, by `users` or `claims`"):
        oidc.load(file)
    file.write_text(good.replace("file:secret", _SECRET))
    with pytest.raises(BadInput, match="client_secret") as refused:
        oidc.load(file)
    assert _SECRET not in str(refused.value)


def test_a_provider_that_hangs_holds_some_of_the_requests_and_refuses_the_rest(
    client: TestClient, app_with_sign_in: FastAPI
) -> None:
    known = app_with_sign_in.state.service.sign_in.provider
    with ExitStack() as waiting:
        for _ in range(oidc.MOST_AT_ONCE):
            waiting.enter_context(known.place())
        refused = client.get("/v1/auth/login")
    let_in = client.get("/v1/auth/login")

    assert (503, "unavailable") == (refused.status_code, refused.json()["error"]["code"])
    assert "5" == refused.headers["retry-after"]
    assert 303 == let_in.status_code
