"""Whether a server is on this machine, as its name says."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether a host is `localhost` or a loopback address; `127.example.com` is a name like any other."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def host_name(server: str) -> str:
    """Return the name in HOST:PORT, as in a Host header; an IPv6 address stands in brackets there."""
    if server.startswith("["):
        return server[1:].partition("]")[0]
    return server.rpartition(":")[0] or server
