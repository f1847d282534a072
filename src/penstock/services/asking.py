"""Single requests to a service, with its login, to check whether it answers."""

import base64
import json
import ssl
import urllib.error
import urllib.request
from typing import Any

from penstock.config.local_services import ServiceAddress
from penstock.errors import BrokerUnavailable, Refused

_TIMEOUT_S = 10.0
_QUICK_S = 3.0


def answers(address: ServiceAddress) -> bool:
    """Return whether anything answers there, even with an error."""
    try:
        get(address, "/", _QUICK_S)
    except Refused:
        return True
    except BrokerUnavailable as error:
        return isinstance(error.__context__, urllib.error.HTTPError | ValueError)
    return True


def get(address: ServiceAddress, path: str, timeout_s: float = _TIMEOUT_S, *, token: str | None = None) -> Any:
    """Return the JSON that a service answers; raise `BrokerUnavailable` if it does not answer, or not yet.

    A token comes from signing in; without one, the login itself is sent, if there is one.
    """
    request = urllib.request.Request(address.url + path)  # noqa: S310 - ours
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    elif address.username is not None and address.password is not None:
        login = base64.b64encode(f"{address.username}:{address.password.reveal()}".encode()).decode()
        request.add_header("Authorization", f"Basic {login}")
    return _answer(address, request, timeout_s)


def post(address: ServiceAddress, path: str, body: str, kind: str) -> Any:
    """Send something, such as a login that is exchanged for a token, and return the answer as `get` does."""
    request = urllib.request.Request(address.url + path, body.encode(), {"Content-Type": kind})  # noqa: S310 - ours
    return _answer(address, request, _TIMEOUT_S)


def _answer(address: ServiceAddress, request: urllib.request.Request, timeout_s: float) -> Any:
    request.add_header("Accept", "application/json")
    context = ssl.create_default_context(cafile=address.ca_file) if address.ca_file else None
    # Without the proxies of the environment: a service is on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        address.require_ours()
        with opener.open(request, timeout=timeout_s) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            if error.code in {401, 403}:
                raise Refused(f"{address.url} refused the login with status {error.code}") from None
            raise BrokerUnavailable(f"{request.full_url} answered with status {error.code}") from None
    except (OSError, ValueError) as error:
        raise BrokerUnavailable(f"{address.url} does not answer: {getattr(error, 'reason', error)}") from None
