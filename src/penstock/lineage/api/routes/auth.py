"""Signing in: by password, or by an OpenID provider and a cookie."""

import datetime
import math
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Query, Request, Response
from pydantic import Field

from penstock.clock import clock
from penstock.errors import Refused, Transient
from penstock.lineage.api.asking import SESSION_COOKIE, AnyAsker
from penstock.lineage.api.errors import ApiError, ErrorAnswer, unauthorized
from penstock.lineage.api.service import SignIn, service_of
from penstock.lineage.shapes.parameters import Parameters
from penstock.lineage.shapes.tokens import AuthToken
from penstock.lineage.sign_in.oidc import ACCOUNT, Provider

router = APIRouter(prefix="/auth", tags=["Auth"])
SIGN_IN_COOKIE = "penstock_sign_in"
_SIGN_IN_S = 600
_BUSY_S = 1
_PROVIDER_S = 5
_OTHERS: dict[int | str, dict[str, object]] = {
    HTTPStatus.TOO_MANY_REQUESTS.value: {"model": ErrorAnswer, "description": "Too many failed tries"},
    HTTPStatus.NOT_IMPLEMENTED.value: {"model": ErrorAnswer, "description": "This way to sign in is not set up"},
}


class PasswordForm(Parameters):
    """The form of OAuth2's password grant."""

    grant_type: str | None = Field(default=None, pattern="^password$", description="password.")
    username: str = Field(min_length=1, max_length=256, description="Name of the user.")
    password: str = Field(min_length=1, max_length=4096, description="The password.")
    scope: str = Field(default="", max_length=1024, description="Not used.")
    client_id: str | None = Field(default=None, max_length=1024, description="Not used.")
    client_secret: str | None = Field(default=None, max_length=1024, description="Not used.")


def _sign_in(request: Request) -> SignIn:
    sign_in = service_of(request).sign_in
    if sign_in is None:
        raise ApiError(HTTPStatus.NOT_IMPLEMENTED, "not_implemented", "The service runs without sign-in")
    return sign_in


def _provider(sign_in: Annotated[SignIn, Depends(_sign_in)]) -> Provider:
    if sign_in.provider is None:
        raise ApiError(HTTPStatus.NOT_IMPLEMENTED, "not_implemented", "No OpenID provider is set up")
    return sign_in.provider


WithSignIn = Annotated[SignIn, Depends(_sign_in)]
WithProvider = Annotated[Provider, Depends(_provider)]


@router.post("/token", summary="Sign in by password", responses=_OTHERS)
def token(
    request: Request,
    sign_in: WithSignIn,
    form: Annotated[PasswordForm, Form()],
    _: Annotated[Parameters, Query()],
) -> AuthToken:
    """Return an access token. After three failures a name has to wait, longer each time."""
    address = request.client.host if request.client else ""
    wait_s = sign_in.tries.begin(form.username, address)
    if wait_s > 0:
        raise _too_many("Too many failed tries. Try again later", wait_s)
    try:
        is_accepted = sign_in.users.accepts(form.username, form.password, address)
    except Transient:
        sign_in.tries.not_looked_at(form.username, address)
        raise _too_many("Too many people sign in at once. Try again in a moment", _BUSY_S) from None
    if not is_accepted:
        raise unauthorized("Wrong user name or password")
    sign_in.tries.succeeded(form.username, address)
    access = sign_in.key.access(form.username, sign_in.users.account(form.username) or "")
    return AuthToken(access_token=access.content, expires_at=access.expires_at)


def _too_many(message: str, wait_s: float) -> ApiError:
    headers = {"Retry-After": str(math.ceil(wait_s))}
    return ApiError(HTTPStatus.TOO_MANY_REQUESTS, "too_many_requests", message, headers=headers)


def _provider_is_away() -> ApiError:
    return ApiError(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "unavailable",
        "The OpenID provider does not answer. Try again in a moment",
        headers={"Retry-After": str(_PROVIDER_S)},
    )


@router.get("/login", summary="Sign in by the OpenID provider", status_code=HTTPStatus.SEE_OTHER, responses=_OTHERS)
def login(sign_in: WithSignIn, provider: WithProvider, _: Annotated[Parameters, Query()]) -> Response:
    """Send a browser to the provider, with a cookie by which it is known when it comes back."""
    try:
        begun = provider.begin()
    except Refused as error:
        raise unauthorized(error.what) from None
    except Transient:
        raise _provider_is_away() from None
    end = clock().now() + datetime.timedelta(seconds=_SIGN_IN_S)
    claims = {"state": begun.state, "nonce": begun.nonce, "verifier": begun.verifier}
    response = Response(status_code=HTTPStatus.SEE_OTHER, headers={"Location": begun.url})
    _set_cookie(response, provider, SIGN_IN_COOKIE, sign_in.key.sign("sign-in", claims, end), _SIGN_IN_S)
    return response


@router.get("/callback", summary="Come back from the provider", status_code=HTTPStatus.NO_CONTENT, responses=_OTHERS)
def callback(
    request: Request,
    sign_in: WithSignIn,
    provider: WithProvider,
    code: Annotated[str, Query(max_length=4096, description="What the provider gives for this sign-in.")],
    state: Annotated[str, Query(max_length=4096, description="What this service gave the provider.")] = "",
) -> Response:
    """Have the provider say who it is, and give the browser a session. Other parameters are the provider's matter."""
    try:
        begun = sign_in.key.read("sign-in", request.cookies.get(SIGN_IN_COOKIE, ""))
        user = provider.finish(code=code, state=state, begun=begun)
    except Refused as error:
        raise unauthorized(error.what) from None
    except Transient:
        raise _provider_is_away() from None
    response = Response(status_code=HTTPStatus.NO_CONTENT)
    response.delete_cookie(SIGN_IN_COOKIE)
    lasts_s = provider.settings.session_max_age // 1000
    access = sign_in.key.access(user, ACCOUNT, lasts_s)
    _set_cookie(response, provider, SESSION_COOKIE, access.content, lasts_s)
    return response


@router.get("/logout", summary="End the session", status_code=HTTPStatus.NO_CONTENT, responses=_OTHERS)
def logout(_sign_in: WithSignIn, _asker: AnyAsker, _: Annotated[Parameters, Query()]) -> Response:
    """Remove the browser's session. A copy of the token remains valid until it expires."""
    response = Response(status_code=HTTPStatus.NO_CONTENT)
    response.delete_cookie(SESSION_COOKIE)
    return response


def _set_cookie(response: Response, provider: Provider, name: str, value: str, age_s: int) -> None:
    """Set a cookie that scripts cannot read and that forms and scripts of other sites do not send."""
    is_https = provider.settings.redirect_url.startswith("https:")
    response.set_cookie(name, value, max_age=age_s, httponly=True, secure=is_https, samesite="lax")
