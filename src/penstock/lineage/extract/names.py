"""How the names in events become keys: locations of namespaces, datasets and jobs in any spelling."""

import hashlib
import re
from functools import lru_cache
from urllib.parse import urlsplit

from penstock.lineage import facts
from penstock.lineage.keys import NO_HOST, NO_SCHEME, DatasetKey, JobKey, LocationKey

_MAX_BYTES = 2000
"""PostgreSQL indexes no more than 2,704 bytes."""
_MAX_KIND_BYTES = 200
"""A location's kind stands in one index with a host."""
_CACHED = 20_000
_JDBC = re.compile(r"^jdbc:([a-z0-9+.-]+)(?::[a-z0-9+.-]+)*://")
"""A server by the name that a driver has for it: of `jdbc:mysql:replication://a,b` it is mysql, with two hosts."""
_SETTINGS = re.compile("[;?#]")
"""What follows it are settings, such as JDBC's `user` and `password`."""


def bounded(name: str, max_bytes: int = _MAX_BYTES) -> str:
    """Return the name; if it is too long for an index, its begin and a digest, which is as unique."""
    if len(name) <= max_bytes // 4 or len(name.lower().encode()) <= max_bytes:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()
    return f"{name[: max_bytes // 5]}...{digest}"


def _without_login(host: str) -> str:
    """Return a host and its port. What stands behind a colon and is no port is a password with odd characters."""
    name = host.rpartition("@")[2]
    before, colon, after = name.rpartition(":")
    return before if colon and not after.isdecimal() and not before.startswith("[") else name


@lru_cache(_CACHED)
def location(namespace: str) -> facts.Location:
    """Return the location of a namespace: of `kafka://b:9092,a:9092` it is kafka, a:9092, with both addresses.

    Hosts are sorted, so that their order does not make another location; a user and password are left out.
    """
    lowered = _JDBC.sub(r"\1://", namespace.strip().lower())
    try:
        url = urlsplit(lowered)
        kind, place = url.scheme or NO_SCHEME, url.netloc or url.path
        # Only a whole address has logins; other names, such as those of Amazon, may have any colons.
        has_logins = bool(url.netloc)
    except ValueError:
        kind, place, has_logins = NO_SCHEME, lowered, True
    if place == "file" and kind == NO_SCHEME:
        kind, place = "file", ""  # Spark's name for the machine's own files
    listed = _SETTINGS.split(place)[0].split(",")
    hosts = sorted({bounded(_without_login(each) if has_logins else each.rpartition("@")[2]) for each in listed} - {""})
    hosts = hosts or [NO_HOST]
    kind = bounded(kind, _MAX_KIND_BYTES)
    return facts.Location(LocationKey(kind, hosts[0]), frozenset(f"{kind}://{host}" for host in hosts))


def dataset(namespace: str, name: str) -> tuple[facts.Dataset, facts.Location]:
    """Return a dataset and where it is."""
    place, spelt = location(namespace), bounded(name)
    return facts.Dataset(DatasetKey(place.key, spelt.lower()), spelt), place


def job(namespace: str, name: str) -> tuple[facts.Job, facts.Location]:
    """Return a job, of which nothing but the name is known, and where it is."""
    place, spelt = location(namespace), bounded(name)
    return facts.Job(JobKey(place.key, spelt.lower()), spelt), place
