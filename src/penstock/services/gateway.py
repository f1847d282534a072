"""The gateway: events over HTTP into Kafka."""

from dataclasses import dataclass

from penstock.config.local_services import ServiceAddress, ServiceState
from penstock.config.services import GatewayService
from penstock.extras import require
from penstock.services.asking import get
from penstock.services.launch import Launch
from penstock.services.own_program import own_program, place
from penstock.services.surroundings import Surroundings


@dataclass(frozen=True)
class Gateway:
    """The gateway with the settings of the project file."""

    settings: GatewayService

    def has_front(self, *, secure: bool) -> bool:  # noqa: ARG002 - as the contract has it
        """Say no: its clients meet it."""
        return False

    def prepare(self, around: Surroundings, state: ServiceState) -> Launch:
        """Return its command."""
        require("lineage", "the gateway")
        token = ("--token-file", str(around.login("gateway"))) if state.login else ()
        options = (*place(around, state), "--topic", self.settings.topic, *token)
        return Launch(programs=(own_program(around, "gateway", "gateway", *options),))

    def probe(self, _around: Surroundings, address: ServiceAddress) -> None:
        """Ask whether it takes events, for which it looks its topic up in Kafka."""
        get(address, "/monitoring/ready")
