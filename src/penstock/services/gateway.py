"""The gateway: events over HTTP into Kafka."""

from dataclasses import dataclass

from penstock.config.local_services import ServiceAddress, ServiceState
from penstock.config.services import GatewayService
from penstock.extras import require
from penstock.services.asking import get
from penstock.services.context import ServiceContext
from penstock.services.launch import Launch
from penstock.services.own_program import own_program, place


@dataclass(frozen=True)
class Gateway:
    """The gateway with the settings of the project file."""

    settings: GatewayService

    def has_front(self, *, secure: bool) -> bool:  # noqa: ARG002 - as the contract has it
        """Return False: clients connect to it directly."""
        return False

    def prepare(self, context: ServiceContext, state: ServiceState) -> Launch:
        """Return its command."""
        require("lineage", "the gateway")
        token = ("--token-file", str(context.login("gateway"))) if state.login else ()
        options = (*place(context, state), "--topic", self.settings.topic, *token)
        return Launch(programs=(own_program(context, "gateway", "gateway", *options),))

    def probe(self, _context: ServiceContext, address: ServiceAddress) -> None:
        """Ask whether it takes events, for which it looks its topic up in Kafka."""
        get(address, "/monitoring/ready")
