import pytest

from penstock.loopback import is_loopback
from penstock.sinks.postgres_server import Server


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.10", "::1"])
def test_this_machine_is_known(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["127.evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", ""]
)
def test_a_name_that_only_looks_like_this_machine_is_another_one(host: str) -> None:
    assert not is_loopback(host)


def test_a_postgresql_elsewhere_has_to_show_its_certificate_whatever_it_is_called() -> None:
    server = Server(host="127.evil.example", database="d", user="u")

    assert "verify-full" == server.trust()["sslmode"]
