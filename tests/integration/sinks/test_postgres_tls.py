"""TLS to a real PostgreSQL: the certificate is checked before anything is said."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from penstock.broker.certificates import Certificates
from penstock.config.secrets_folder import SecretsFolder
from penstock.errors import BadInput, Refused
from penstock.lab.bench.throwaway import running
from penstock.lab.bench.throwaway_postgres import RunningPostgres

from support.postgres_driver import Driver, ask


@pytest.fixture(scope="module")
def over_tls() -> Iterator[RunningPostgres]:
    with running(partial(RunningPostgres, tls=True)) as server:
        yield server


def test_rows_go_over_tls_from_driver_and_tasks_when_the_ca_is_named(over_tls: RunningPostgres) -> None:
    server = over_tls.database()

    with Driver(server) as driver:
        driver.write([(1, "a")])

    assert [(1,)] == ask(server, "SELECT id FROM orders")
    assert [(True,)] == ask(server, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")


@pytest.mark.parametrize("mistake", ["another CA", "no CA", "the system's CAs"])
def test_a_certificate_that_is_not_to_be_trusted_is_refused_at_once(
    over_tls: RunningPostgres, tmp_path: Path, mistake: str
) -> None:
    files = SecretsFolder.of(tmp_path)
    Certificates(files).ensure_ca()
    ca = {"another CA": files.ca_pem, "no CA": tmp_path / "missing.pem", "the system's CAs": None}[mistake]
    server = over_tls.database().model_copy(update={"ca_file": ca, "sslmode": "verify-full"})

    with pytest.raises((Refused, BadInput), match=r"certificate|there is no ca_file") as caught, Driver(server):
        pass

    assert "ca_file" in str(caught.value)
