"""The service that answers questions about lineage. Its store is made before, and filled by a pipeline."""

from dataclasses import dataclass
from urllib.parse import urlencode

from penstock.config.local_services import ServiceAddress, ServiceState
from penstock.config.services import LineageService
from penstock.extras import require
from penstock.services.asking import get, post
from penstock.services.launch import Launch
from penstock.services.own_program import have_user, own_program, place
from penstock.services.surroundings import Surroundings

_OF_OTHER_STORES = "PENSTOCK_LINEAGE_"


@dataclass(frozen=True)
class Lineage:
    """The service with the settings of the project file."""

    settings: LineageService

    def has_front(self, *, secure: bool) -> bool:  # noqa: ARG002 - as the contract has it
        """Say no: its clients meet it."""
        return False

    def prepare(self, around: Surroundings, state: ServiceState) -> Launch:
        """Return its command."""
        require("lineage", "the lineage")
        if state.login:
            have_user(around, "lineage")
        options = (*place(around, state), *(("--sign-in",) if state.login else ()))
        serve = own_program(around, "serve", "lineage", "serve", *options)
        # The store is the one in the home folder, which the pipeline beside it fills, whatever the shell says.
        variables = tuple(name for name in serve.variables if not name.startswith(_OF_OTHER_STORES))
        return Launch(programs=(serve.model_copy(update={"variables": variables}),))

    def probe(self, _around: Surroundings, address: ServiceAddress) -> None:
        """Ask for datasets, which come from the store."""
        token = None
        if address.password is not None:
            login = {"username": address.username, "password": address.password.reveal()}
            token = post(address, "/v1/auth/token", urlencode(login), "application/x-www-form-urlencoded")[
                "access_token"
            ]
        get(address, "/v1/datasets?page_size=1", token=token)
