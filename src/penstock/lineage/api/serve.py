"""Runs the REST service until it is asked to stop."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn
from pydantic import BaseModel, ConfigDict, Field

from penstock.errors import BadInput
from penstock.lineage.api.app import make_app
from penstock.lineage.api.service import Service, SignIn
from penstock.lineage.sign_in import oidc
from penstock.lineage.sign_in.passwords import UsersFile
from penstock.lineage.sign_in.tokens import TokenKey
from penstock.lineage.store.address import StoreAddress
from penstock.lineage.store.database import open_engine
from penstock.listening import BoundedConnection, Server, listen, require_certificate
from penstock.loopback import is_loopback

_MOST_AT_ONCE = 200
_LAST_ANSWERS_S = 30
_CONNECTIONS = 10


class ServeOptions(BaseModel):
    """Where and for whom the service is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field(description="Address to listen on; any address but the loopback requires sign-in.")
    port: int = Field(description="Port to listen on; 0 takes a free one.")
    sign_in: bool = Field(description="Whether people and programs have to show who they are.")
    oidc_file: Path | None = Field(description="Settings of an OpenID provider, by which people sign in.")
    certificate: Path | None = Field(description="Certificate (PEM), to serve HTTPS.")
    key: Path | None = Field(description="Key of the certificate (PEM).")


def serve(
    address: StoreAddress,
    folder: Path,
    options: ServeOptions,
    *,
    ready: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Serve until SIGINT or SIGTERM. Users and the key of tokens are in `folder`; `ready` hears the address.

    Raises if nobody could sign in, and if there is no store, or one of another schema.
    """
    require_certificate(options.certificate, options.key)
    is_local = is_loopback(options.host)
    needs_sign_in = options.sign_in or options.oidc_file is not None or not is_local
    sign_in = _sign_in(folder, options) if needs_sign_in else None
    if not is_local and options.certificate is None:
        warn("without --certificate, passwords and tokens can be read on their way")
    engine = open_engine(address, pool_size=_CONNECTIONS)
    try:
        listener = listen(options.host, options.port, "lineage")
        scheme = "http" if options.certificate is None else "https"
        url = f"{scheme}://{options.host}:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            make_app(Service(engine, sign_in)),
            log_config=None,
            access_log=False,  # paths have what people search for, and codes of sign-ins
            server_header=False,
            http=BoundedConnection,
            ws="none",
            proxy_headers=False,  # whoever connects counts, not whom they say they speak for
            limit_concurrency=_MOST_AT_ONCE,
            timeout_graceful_shutdown=_LAST_ANSWERS_S,
            ssl_certfile=options.certificate,
            ssl_keyfile=None if options.key is None else str(options.key),
        )
        with suppress(KeyboardInterrupt):  # uvicorn raises it again when all is done
            Server(config, lambda: ready(url)).run(sockets=[listener])
    finally:
        engine.dispose()


def _sign_in(folder: Path, options: ServeOptions) -> SignIn:
    users = UsersFile.of(folder)
    provider = oidc.Provider(oidc.load(options.oidc_file)) if options.oidc_file is not None else None
    if provider is None and not users.names():
        raise BadInput(
            "nobody could sign in: there is no user and no OpenID provider",
            safe="Nothing was started",
            fix="Add a user with: penstock lineage user add NAME; or name --oidc-file FILE",
        )
    return SignIn(TokenKey.of(folder), users, provider)
