"""The contract of a service: what it consists of, and how it shows that it works."""

from typing import Protocol

from penstock.config.local_services import ServiceAddress, ServiceState
from penstock.services.context import ServiceContext
from penstock.services.launch import Launch


class Service(Protocol):
    """One kind of service, with the settings of the project file."""

    def has_front(self, *, secure: bool) -> bool:
        """Return whether clients meet a program of ours in front of the service's own."""

    def prepare(self, context: ServiceContext, state: ServiceState) -> Launch:
        """Fetch what it needs and write its files; return what to start. Nothing runs yet."""

    def probe(self, context: ServiceContext, address: ServiceAddress) -> None:
        """Send a real request through it; raise a `Transient` error until that works."""
