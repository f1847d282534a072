"""The console: Kafka, pipelines and dead letters in a browser."""

from dataclasses import dataclass

import orjson

from penstock.config.local_services import ServiceAddress, ServiceState
from penstock.config.services import ConsoleService
from penstock.errors import BrokerUnavailable
from penstock.extras import require
from penstock.services.asking import get, post
from penstock.services.context import ServiceContext
from penstock.services.launch import Launch
from penstock.services.own_program import have_user, own_program, place


@dataclass(frozen=True)
class ConsoleServer:
    """The console with the settings of the project file."""

    settings: ConsoleService

    def has_front(self, *, secure: bool) -> bool:  # noqa: ARG002 - as the contract has it
        """Return False: clients connect to it directly."""
        return False

    def prepare(self, context: ServiceContext, state: ServiceState) -> Launch:
        """Return its command."""
        require("console", "the console")
        role = ("--role", self.settings.role)
        if state.login:
            have_user(context, "console", *role)
        options = (*place(context, state), *(("--sign-in",) if state.login else role))
        return Launch(programs=(own_program(context, "console", "console", *options),))

    def probe(self, _context: ServiceContext, address: ServiceAddress) -> None:
        """Ask for the overview, which has the cluster in it."""
        token = None
        if address.password is not None:
            login = orjson.dumps({"user": address.username, "password": address.password.reveal()})
            token = post(address, "/api/v1/sign-in", login.decode(), "application/json")["token"]
        if get(address, "/api/v1/overview", token=token)["cluster"] is None:
            raise BrokerUnavailable("the console does not see Kafka yet")
