"""Serving the console until it is stopped."""

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn
from pydantic import BaseModel, ConfigDict, Field

from penstock.config.settings import Settings
from penstock.console.api.app import make_app
from penstock.console.pages.site import add_pages
from penstock.console.service import Console, SignIn
from penstock.console.users import Role, Users
from penstock.errors import BadInput, Conflict
from penstock.lineage.sign_in.tokens import TokenKey
from penstock.listening import BoundedConnection, Server, listen, require_certificate
from penstock.loopback import is_loopback

USUAL_PORT = 8080
_MOST_AT_ONCE = 800
_LAST_ANSWERS_S = 5


class ConsoleOptions(BaseModel):
    """Where and for whom the console is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(description="Address to listen on; any address but the loopback requires sign-in.")
    port: int | None = Field(
        description="Port to listen on; 0 takes a free one. Left out: 8080, or a free one where that is taken."
    )
    sign_in: bool | None = Field(
        description="Whether people on this machine have to sign in, too. Left out: where the console has a login."
    )
    role: Role = Field(description="Role of those who need not sign in.")
    downloads: bool = Field(description="Whether records can be downloaded as a file.")
    certificate: Path | None = Field(description="Certificate (PEM), to serve HTTPS.")
    key: Path | None = Field(description="Key of the certificate (PEM).")


def folder_of(settings: Settings) -> Path:
    """Return where the console's users and the key of its tokens are."""
    return settings.home / "console"


def serve(
    settings: Settings,
    root: list[str],
    options: ConsoleOptions,
    *,
    ready: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Serve until SIGINT or SIGTERM; `ready` hears the address as soon as it answers. Kafka may be away meanwhile.

    Raises if it is open to others and nobody could sign in.
    """
    require_certificate(options.certificate, options.key)
    is_local = is_loopback(options.host)
    sign_in = _sign_in(settings) if _asks(settings, options, is_local=is_local) else None
    if not is_local and options.certificate is None:
        warn("without --certificate, passwords and tokens can be read on their way")
    listener = _listen(options, warn)
    scheme = "http" if options.certificate is None else "https"
    address = f"{scheme}://{options.host}:{listener.getsockname()[1]}"
    console = Console(
        settings,
        root,
        sign_in=sign_in,
        role=options.role,
        has_downloads=options.downloads,
        lets_all_in=options.sign_in is False,
    )
    app = make_app(console)
    add_pages(app)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,  # paths have what people search for
        server_header=False,
        http=BoundedConnection,
        proxy_headers=False,  # whoever connects counts, not whom they say they speak for
        limit_concurrency=_MOST_AT_ONCE,
        timeout_graceful_shutdown=_LAST_ANSWERS_S,
        ssl_certfile=options.certificate,
        ssl_keyfile=None if options.key is None else str(options.key),
    )
    with suppress(KeyboardInterrupt):  # uvicorn raises it again when all is done
        Server(config, lambda: ready(address)).run(sockets=[listener])


def _listen(options: ConsoleOptions, warn: Callable[[str], None]) -> socket.socket:
    """Take the port that was named, and no other; without one, the usual port or any that is free."""
    if options.port is not None:
        return listen(options.host, options.port, "the console")
    try:
        return listen(options.host, USUAL_PORT, "the console")
    except Conflict as taken:
        warn(f"{taken.what}; another port is used")
        return listen(options.host, 0, "the console")


def _asks(settings: Settings, options: ConsoleOptions, *, is_local: bool) -> bool:
    """Return whether people have to sign in: everybody on this machine could else act by the logins of one."""
    if not is_local and options.sign_in is False:
        raise BadInput(f"at {options.host} people have to sign in", safe="Nothing was started")
    if not is_local or options.sign_in is not None:
        return not is_local or bool(options.sign_in)
    return settings.has_login or settings.has_logins_elsewhere


def _sign_in(settings: Settings) -> SignIn:
    folder = folder_of(settings)
    users = Users(folder)
    if not users.list():
        raise BadInput(
            "nobody could sign in: there is no user",
            safe="Nothing was started",
            fix="Add one with: penstock console user add NAME --role admin",
        )
    return SignIn(TokenKey.of(folder), users)
