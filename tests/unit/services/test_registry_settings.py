from pathlib import Path

import pytest

from penstock.config.local_services import ServiceState
from penstock.config.services import RegistryDatabase, RegistryService
from penstock.jvm import archives
from penstock.kafka.connection import Connection
from penstock.secret import Secret
from penstock.services.context import ServiceContext
from penstock.services.registry import Registry

_SCRAM = "requireAuth=scram-sha-256"
_NOBODYS = f"{_SCRAM}&sslmode=verify-full&sslfactory=org.postgresql.ssl.DefaultJavaSSLFactory"


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServiceContext:
    monkeypatch.setattr(archives, "ensure", lambda *_given: Path("/registry"))
    return ServiceContext(tmp_path, tmp_path / "jars", Connection(bootstrap_servers="127.0.0.1:9092"), 1, secure=False)


def settings(context: ServiceContext, database: str | None = None) -> dict[str, str]:
    state = ServiceState(name="registry", host="127.0.0.1", port=8081, inner_port=9, secure=False)
    given = database and RegistryDatabase(url=database, username="u", password=Secret.of("canary"))
    Registry(RegistryService(database=given or None)).prepare(context, state)
    path = context.folder("registry") / "config" / "application.properties"
    assert 0o600 == path.stat().st_mode & 0o777
    pairs = (line.split("=", 1) for line in path.read_text().splitlines())
    return {name: value.replace("\\", "") for name, value in pairs}


@pytest.mark.parametrize(
    ("url", "more"),
    [
        ("postgresql://127.0.0.1:5432/r", f"?{_SCRAM}"),
        ("postgresql://localhost/r", f"?{_SCRAM}"),
        ("postgresql://localhost/r?requireAuth=md5", ""),
        ("postgresql://db.example.com:5432/r", f"?{_NOBODYS}"),
        ("postgresql://127.evil.example/r", f"?{_NOBODYS}"),
        ("postgresql://db.example.com/r?sslrootcert=/ca.pem", f"&{_SCRAM}&sslmode=verify-full"),
        ("postgresql://db.example.com/r?sslmode=disable", f"&{_SCRAM}"),
    ],
)
def test_a_database_gets_no_password_to_read_and_one_elsewhere_shows_its_certificate(
    context: ServiceContext, url: str, more: str
) -> None:
    assert f"jdbc:{url}{more}" == settings(context, url)["apicurio.datasource.url"]


def test_the_registry_behind_the_front_asks_for_a_login_on_any_cluster(context: ServiceContext) -> None:
    found = settings(context)
    password = (context.folder("registry") / "login.password").read_text().strip()

    assert "authenticated" == found["quarkus.http.auth.permission.all.policy"]
    assert password == found["quarkus.security.users.embedded.users.registry"]
