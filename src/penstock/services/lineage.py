"""The service that answers questions about lineage. Its store is made before, and filled by a pipeline."""

from dataclasses import dataclass
from urllib.parse import urlencode

from penstock.config.local_services import ServiceAddress, ServiceState
from penstock.config.services import LineageService
from penstock.extras import require
from penstock.services.asking import get, post
from penstock.services.context import ServiceContext
from penstock.services.launch import Launch
from penstock.services.own_program import have_user, own_program, place

_OF_OTHER_STORES = "PENSTOCK_LINEAGE_"


@dataclass(frozen=True)
class Lineage:
    """The service with the settings of the project file."""

    settings: LineageService

    def has_front(self, *, secure: bool) -> bool:  # noqa: ARG002 - as the contract has it
        """Return False: clients connect to it directly."""
        return False

    def prepare(self, context: ServiceContext, state: ServiceState) -> Launch:
        """Return its command."""
        require("lineage", "the lineage")
        if state.login:
            have_user(context, "lineage")
        options = (*place(context, state), *(("--sign-in",) if state.login else ()))
        serve = own_program(context, "serve", "lineage", "serve", *options)
        # The store is the one in the home folder, which the pipeline beside it fills, whatever the shell says.
        variables = tuple(name for name in serve.variables if not name.startswith(_OF_OTHER_STORES))
        return Launch(programs=(serve.model_copy(update={"variables": variables}),))

    def probe(self, _context: ServiceContext, address: ServiceAddress) -> None:
        """Ask for datasets, which come from the store."""
        token = None
        if address.password is not None:
            login = {"username": address.username, "password": address.password.reveal()}
            token = post(address, "/v1/auth/token", urlencode(login), "application/x-www-form-urlencoded")[
                "access_token"
            ]
        get(address, "/v1/datasets?page_size=1", token=token)
