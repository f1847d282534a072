"""The services: what runs for each model of the project file."""

from collections.abc import Callable
from typing import Any

from penstock.config.services import (
    AnyService,
    ConnectService,
    ConsoleService,
    GatewayService,
    LineageService,
    RegistryService,
    SimulatorService,
)
from penstock.services.connect import Connect
from penstock.services.console import ConsoleServer
from penstock.services.gateway import Gateway
from penstock.services.lineage import Lineage
from penstock.services.registry import Registry
from penstock.services.service import Service
from penstock.services.simulator import Simulator

_KINDS: dict[type[AnyService], Callable[[Any], Service]] = {
    RegistryService: Registry,
    ConnectService: Connect,
    GatewayService: Gateway,
    LineageService: Lineage,
    ConsoleService: ConsoleServer,
    SimulatorService: Simulator,
}


def service_of(settings: AnyService) -> Service:
    """Return the service with these settings."""
    return _KINDS[type(settings)](settings)
