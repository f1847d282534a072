"""Whether a server is on this machine, as its name says; and which addresses are one client's."""

import functools
import ipaddress

_NETWORK = 64
"""Bits of an IPv6 address that a client is given; the others it chooses."""


def is_loopback(host: str) -> bool:
    """Return whether a host is `localhost` or a loopback address; `127.example.com` is a name like any other."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def host_name(server: str) -> str:
    """Return the name in HOST:PORT, as in a Host header; an IPv6 address is in brackets there."""
    if server.startswith("["):
        return server[1:].partition("]")[0]
    return server.rpartition(":")[0] or server


@functools.lru_cache(maxsize=10_000)  # each new connection asks for those of all others
def neighbourhood(address: str) -> str:
    """Return what stands for all addresses that one client can take: those of this machine, or its network of IPv6."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found
    if found.is_loopback:
        return "loopback"
    return str(found if found.version == 4 else ipaddress.ip_network((int(found), _NETWORK), strict=False))  # noqa: PLR2004
