"""Whom a PostgreSQL sink shows its password to: nobody, whoever answers."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import ValidationError

from penstock.errors import Refused, SinkUnavailable
from penstock.secret import Secret
from penstock.sinks.postgres_server import Server

PASSWORD = "canary-of-a-password"


def server(**parts: object) -> Server:
    return Server(**{"database": "app", "user": "app", "password": Secret.of(PASSWORD), **parts})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1", "/run/postgresql", "@abstract"])
def test_on_this_machine_tls_is_used_if_it_is_there(host: str) -> None:
    assert {"sslmode": "prefer", "require_auth": "scram-sha-256"} == server(host=host).trust()


@pytest.mark.parametrize("host", ["db.example", "10.0.0.7", "localhost.example", "127.0.0.1,db.example", ""])
def test_elsewhere_the_certificate_and_its_name_are_checked(host: str) -> None:
    found = server(host=host).trust()

    assert "verify-full" == found["sslmode"]
    assert Path(found["sslrootcert"]).exists()


def test_a_ca_that_is_named_is_the_one_that_counts_here_too(tmp_path: Path) -> None:
    found = server(ca_file=tmp_path / "ca.pem").trust()

    assert ("verify-full", str(tmp_path / "ca.pem")) == (found["sslmode"], found["sslrootcert"])


@pytest.mark.parametrize(
    "host",
    [
        f"app:{PASSWORD}@db.example",
        f"{PASSWORD}@db.example",
        f"postgres://app:{PASSWORD}@db.example/app",
        f"db.example password={PASSWORD}",
        f"db.example,app:{PASSWORD}@other.example",
        f"app:{PASSWORD}",
    ],
)
def test_a_login_in_the_host_is_refused_and_not_repeated(host: str) -> None:
    with pytest.raises(ValidationError, match="a host is a name or an address alone") as caught:
        server(host=host)

    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("database", [f"postgresql://app:{PASSWORD}@db.example/app", f"password={PASSWORD}"])
def test_a_login_in_the_name_of_the_database_is_refused_and_not_repeated(database: str) -> None:
    with pytest.raises(ValidationError, match="a database is a name alone") as caught:
        server(database=database)

    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("given", [{"sslmode": "prefer"}, {"sslmode": "allow"}, {"sslmode": "verify-ca"}])
def test_what_only_looks_safe_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        server(**given)


def test_a_ca_that_nothing_is_checked_against_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="looks at no certificate: leave out either it or `ca_file`"):
        server(sslmode="disable", ca_file=tmp_path / "ca.pem")


@contextmanager
def stranger(request: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """Listen where a server would, ask for a password in some way, and keep what comes."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def talk() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.settimeout(120)
                while message := connection.recv(4096):
                    heard.append(message)
                    is_tls_wanted = message[4:8] == struct.pack("!i", 80877103)
                    connection.sendall(b"N" if is_tls_wanted else request)

        thread = threading.Thread(target=talk)
        thread.start()
        yield listening.getsockname()[1], heard
        thread.join(240)


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(b"R" + struct.pack("!ii", 8, 3), id="in the clear"),
        pytest.param(b"R" + struct.pack("!ii", 12, 5) + b"salt", id="md5"),
        pytest.param(b"R" + struct.pack("!ii", 8, 0), id="not at all"),
    ],
)
@pytest.mark.parametrize("sslmode", [None, "disable"])
def test_a_stranger_who_asks_for_the_password_does_not_get_it(request_: bytes, sslmode: str | None) -> None:
    with stranger(request_) as (port, heard), pytest.raises(Refused) as caught:
        server(port=port, sslmode=sslmode).connect()

    assert PASSWORD.encode() not in b"".join(heard)
    assert b"md5" not in b"".join(heard)
    assert PASSWORD not in str(caught.value)


def test_a_stranger_elsewhere_hears_nothing_but_a_wish_for_tls(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("")

    with stranger(b"") as (port, heard), pytest.raises(Refused):
        server(port=port, ca_file=ca).connect()

    assert [struct.pack("!ii", 8, 80877103)] == heard


@pytest.mark.parametrize(
    ("host", "why"),
    [("127.0.0.1", "Connection refused"), ("nosuch.invalid", "(Name or service not known|.*resolution)")],
)
def test_a_server_that_is_away_is_named_once_with_what_to_look_at(host: str, why: str) -> None:
    said = rf"^PostgreSQL at {host}:1 does not answer: {why}\. Nothing was written to it\. Check whether it runs, and"

    with pytest.raises(SinkUnavailable, match=said):
        Server(host=host, port=1, database="app", user="app").connect()
