"""TLS to Redis and RabbitMQ: certificates and host names are always checked."""

import ssl

from penstock.errors import BadInput, NotFound, PenstockError, Refused
from penstock.transports.address import Address

SYSTEM = "system"


def tls_context(address: Address) -> ssl.SSLContext | None:
    """Return a context that trusts the CA of the address; None for an address without TLS."""
    if address.tls is None:
        return None
    try:
        return ssl.create_default_context(cafile=None if address.tls == SYSTEM else address.tls)
    except ssl.SSLError:
        raise BadInput(f"{address.tls} holds no certificate of a CA", fix="Name a PEM file, or ?tls=system") from None
    except OSError as error:
        raise NotFound(f"the CA of {address} cannot be read: {error.strerror}: {address.tls}") from None


def tls_refusal(doing: str, where: str, error: BaseException) -> PenstockError | None:
    """Return why TLS failed; None if something else did."""
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return Refused(f"{doing}: the certificate of {where} is not to be trusted", fix="Check what ?tls= points to")
    if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER_FAILURE" in text:
        return Refused(f"{doing}: {where} does not speak TLS", fix="Check the port, or leave ?tls= out")
    return None
