"""Users with a password, in a file that only its owner reads. The file has hashes by scrypt, never a password."""

import base64
import fcntl
import hashlib
import hmac
import os
import re
import secrets
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import BadInput, NotFound, Transient
from penstock.loopback import neighbourhood
from penstock.private import OWNER_ONLY, make_missing_private, write_private

SHORTEST_PASSWORD = 8
_LONGEST_PASSWORD = 1024
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")
_N, _R, _P = 2**14, 8, 1  # 16 MiB and some 50 ms for each try
_SALT_BYTES = 16
_ACCOUNT_BYTES = 8
_MOST_MEMORY = 64 * 1024 * 1024
_PARTS = 6  # scrypt, n, r, p, salt and hash
_at_once = threading.Semaphore(2)  # so that a flood of tries takes neither all memory nor all cores
_MOST_IN_LINE = 16  # nor all threads, which other requests need
_SHARE = 2


class _Line:
    """Those who wait for their password to be looked at: so many, and half of them from one address at most.

    A flood from one address so keeps nobody elsewhere out.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: Counter[str] = Counter()

    @contextmanager
    def place(self, address: str) -> Iterator[None]:
        """Stand in line; raise `Transient` if it is too long."""
        whose = neighbourhood(address)
        with self._lock:
            if self._waiting.total() >= _MOST_IN_LINE or self._waiting[whose] >= _MOST_IN_LINE // _SHARE:
                raise Transient(
                    "too many people sign in at once", safe="Nothing was looked at", fix="Try again in a moment"
                )
            self._waiting[whose] += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= Counter([whose])  # which keeps nothing of those who have gone


_line = _Line()


class UsersFile:
    """The users of the lineage service. Each has an account, which a new password keeps and a removal ends."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of(cls, folder: Path) -> "UsersFile":
        """Return the users in a folder."""
        return cls(folder / "users")

    def put(self, name: str, password: str) -> None:
        """Add a user, or give one another password."""
        if not _USER.fullmatch(name):
            raise BadInput(f"'{name}' is not a user name: letters, digits and . _ @ -, 63 at most")
        if not SHORTEST_PASSWORD <= len(password) <= _LONGEST_PASSWORD:
            raise BadInput(
                f"a password has {SHORTEST_PASSWORD} to {_LONGEST_PASSWORD} characters", safe="Nothing was changed"
            )
        salt = secrets.token_bytes(_SALT_BYTES)
        with self._changing() as users:
            account = _account(users[name]) if name in users else secrets.token_hex(_ACCOUNT_BYTES)
            users[name] = f"{account} scrypt:{_N}:{_R}:{_P}:{_text(salt)}:{_text(_hash(password, salt, _N, _R, _P))}"

    def remove(self, name: str) -> None:
        """Take away a user's sign-in. Who gets the name afterwards has another account."""
        with self._changing() as users:
            if users.pop(name, None) is None:
                raise NotFound(f"there is no user '{name}'", safe="Nothing was changed")

    def names(self) -> list[str]:
        """Return who may sign in."""
        return sorted(self._read())

    def account(self, name: str) -> str | None:
        """Return what distinguishes a user from earlier ones of the same name; None if there is no such user."""
        kept = self._read().get(name)
        return None if kept is None else _account(kept)

    def accepts(self, name: str, password: str, address: str) -> bool:
        """Return whether this is the password of a user who asks from there. It takes as long if there is none."""
        if len(password) > _LONGEST_PASSWORD:
            return False
        known = self._read().get(name)
        nobody = f" scrypt:{_N}:{_R}:{_P}:{_text(bytes(_SALT_BYTES))}:"
        parts = (known or nobody).partition(" ")[2].split(":")
        if len(parts) != _PARTS or parts[0] != "scrypt":
            raise BadInput(f"{self._path} has a line for '{name}' that is not a scrypt hash")
        n, r, p = map(int, parts[1:4])
        with _line.place(address), _at_once:
            found = _hash(password, base64.b64decode(parts[4]), n, r, p)
        return hmac.compare_digest(found, base64.b64decode(parts[5])) and known is not None

    def _read(self) -> dict[str, str]:
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return {}
        pairs = (line.partition(" ") for line in lines)
        return {name: kept for name, sign, kept in pairs if sign}

    @contextmanager
    def _changing(self) -> Iterator[dict[str, str]]:
        """Yield the users to change: one process at a time, and nothing is written if it fails."""
        make_missing_private(self._path.parent)
        place = self._path.with_name(self._path.name + ".lock")
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT, OWNER_ONLY), "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            users = self._read()
            yield users
            write_private(self._path, "".join(f"{name} {kept}\n" for name, kept in sorted(users.items())).encode())


def _account(kept: str) -> str:
    return kept.partition(" ")[0]


def _hash(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=_MOST_MEMORY)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
