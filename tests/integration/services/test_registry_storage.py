"""Where schemas are kept: in PostgreSQL, if the project file names one."""

from pathlib import Path

import httpx
import pytest

from penstock.config.services import RegistryDatabase, RegistryService, Services
from penstock.errors import EnvironmentNotReady
from penstock.kafka.connection import Connection
from penstock.lab.bench.throwaway_postgres import RunningPostgres
from penstock.secret import Secret
from penstock.services import control
from penstock.services.context import ServiceContext


@pytest.mark.soak
def test_schemas_in_postgresql_outlive_the_registry_and_its_folder(
    postgres: RunningPostgres, jar_folder: Path, tmp_path: Path
) -> None:
    server = postgres.database()
    assert server.password is not None
    database = RegistryDatabase(
        url=f"postgresql://127.0.0.1:{server.port}/{server.database}", username=server.user, password=server.password
    )
    wanted = Services(registry=RegistryService(port=0, database=database))
    nowhere = Connection(bootstrap_servers="127.0.0.1:1")
    found = []
    for name in ("first", "second"):
        home = tmp_path / name
        services = control.LocalServices(ServiceContext(home, jar_folder, nowhere, nodes=1, secure=False))
        try:
            url = services.up(wanted)["registry"].url
            found.append(httpx.get(f"{url}/subjects", timeout=240).json())
            httpx.post(f"{url}/subjects/kept-value/versions", json={"schema": '"string"'}, timeout=240)
        finally:
            control.stop(home, "registry")

    assert [[], ["kept-value"]] == found


@pytest.mark.soak
def test_a_database_that_is_not_there_is_told_and_the_registry_is_stopped_again(
    jar_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("canary-password")
    database = RegistryDatabase(
        url="postgresql://127.0.0.1:1/none",
        username="nobody",
        password=Secret.parse(f"file:{tmp_path / 'password'}"),
    )
    nowhere = Connection(bootstrap_servers="127.0.0.1:1")
    services = control.LocalServices(ServiceContext(tmp_path, jar_folder, nowhere, nodes=1, secure=False))

    with pytest.raises(EnvironmentNotReady) as raised:
        services.up(Services(registry=RegistryService(port=0, database=database)))
    assert "penstock logs registry" in str(raised.value)
    assert "canary-password" not in str(raised.value)
    assert not control.stop(tmp_path, "registry")
