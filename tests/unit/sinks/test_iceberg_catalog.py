"""Catalogs of Iceberg tables by URL: what they are asked, what keeps them out, and what stays secret."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from penstock.broker.ports import find_free
from penstock.errors import Refused, SinkUnavailable
from penstock.secret import Secret
from penstock.sinks.iceberg_catalog import Catalog, open_catalog

from support.iceberg_driver import A, B, Driver
from support.iceberg_rest import rest_catalog
from support.iceberg_tables import reader

CANARY = "canary-5f1e"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tables" / "orders"


def test_a_table_in_a_rest_catalog_is_made_and_written_to_exactly_once(path: Path, tmp_path: Path) -> None:
    with rest_catalog(tmp_path / "rest", CANARY) as url:
        catalog = Catalog(url=url, token=Secret.of(CANARY))
        keys: dict[str, Any] = {"table": "shop.orders", "catalog": catalog}
        older, newer = Driver(path, **keys), Driver(path, **keys)
        older.write(1, 2)
        newer.write(3, partition=B)
        older.write(4)
        found = (older.positions, newer.positions)
        metadata = open_catalog(catalog, path).load_table("shop.orders").metadata_location

    assert ({A: 3, B: 1},) * 2 == found
    rows = reader().cursor().execute("SELECT id FROM iceberg_scan(?) ORDER BY id", [metadata]).fetchall()
    assert [(1,), (2,), (3,), (4,)] == rows
    assert not (path.parent / "iceberg.db").exists()


def test_a_rest_catalog_that_does_not_let_us_in_says_so_and_no_secret(path: Path, tmp_path: Path) -> None:
    with (
        rest_catalog(tmp_path / "rest", "another") as url,
        pytest.raises(Refused, match=f"the Iceberg catalog {url} does not let this client in") as caught,
    ):
        Driver(path, catalog=Catalog(url=url, token=Secret.of(CANARY)))
    assert CANARY not in str(caught.value)
    assert not path.exists()


@pytest.mark.parametrize(("start", "secret"), [("http://", "token"), ("postgresql://me@", "password")])
def test_a_catalog_that_is_down_is_waited_for(path: Path, start: str, secret: str) -> None:
    url = f"{start}127.0.0.1:{find_free('127.0.0.1', 1)[0]}/db"
    catalog = Catalog.model_validate({"url": url, secret: Secret.of(CANARY)})

    with pytest.raises(SinkUnavailable, match=r"the Iceberg catalog \S+ does not answer: ") as caught:
        Driver(path, catalog=catalog)
    assert 4 == caught.value.exit_code
    assert CANARY not in str(caught.value)


def test_a_catalog_that_goes_down_in_the_middle_is_waited_for_and_gone_on_with(path: Path, tmp_path: Path) -> None:
    with rest_catalog(tmp_path / "rest", CANARY) as url:
        driver = Driver(path, catalog=Catalog(url=url, token=Secret.of(CANARY)))
        driver.write(1)
        driver.prepare(A, [{"id": 2, "text": ""}])
    with pytest.raises(SinkUnavailable):
        driver.sink.commit()
    with rest_catalog(tmp_path / "rest", CANARY) as url:
        driver = Driver(path, catalog=Catalog(url=url, token=Secret.of(CANARY)))
        found = driver.positions
        driver.write(2)

        assert ({A: 1}, {A: 2}) == (found, driver.positions)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"url": f"postgresql://me:{CANARY}@host/db"}, "no password is written here"),
        ({"url": f"postgresql://me:12/{CANARY}@host/db"}, "no password is written here"),
        ({"url": f"https://{CANARY}@host/path"}, "no password is written here"),
        ({"url": "mysql://host/db"}, "a catalog's url begins with https://, http:// or postgresql://"),
        ({"url": "https://host", "path": "x.db"}, "a catalog is a `path` or a `url`, not both"),
        ({"token": "env:TOKEN"}, "`token`, `credential` and `warehouse` are for a REST catalog"),
        ({"url": "https://host", "password": "env:X"}, "`password` is for a catalog in PostgreSQL"),
        ({"url": "https://host", "token": CANARY}, "a secret is not written here: name it as env:NAME or file:PATH"),
    ],
)
def test_a_catalog_that_contradicts_itself_is_refused_without_its_secret(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message) as caught:
        Catalog.model_validate(keys)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "settings", "is_open"),
    [
        ("postgresql://me@127.0.0.1:5432/db", {"require_auth": "scram-sha-256"}, False),
        ("postgresql://me@/db?host=/run/postgresql", {"require_auth": "scram-sha-256"}, False),
        (
            "postgresql://me@db.example:5432/db",
            {"require_auth": "scram-sha-256", "sslmode": "verify-full", "sslrootcert": "/system.pem"},
            False,
        ),
        (
            "postgresql://me@db.example/db?sslrootcert=/ca.pem",
            {"require_auth": "scram-sha-256", "sslmode": "verify-full", "sslrootcert": "/ca.pem"},
            False,
        ),
        ("postgresql://me@db.example/db?sslmode=require&require_auth=md5", {"require_auth": "md5"}, True),
    ],
)
def test_a_postgresql_is_shown_no_password_and_elsewhere_shows_its_certificate(
    url: str, settings: dict[str, str], *, is_open: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.sinks.iceberg_catalog.cas_of_the_system", lambda: "/system.pem")
    spec = Catalog(url=url, password=Secret.of("a word"))
    with closing(open_catalog(spec, tmp_path)) as catalog:
        _, connecting = catalog.engine.dialect.create_connect_args(catalog.engine.url)

    assert settings == {name: connecting[name] for name in settings}
    assert ("a word", "-c statement_timeout=60s") == (connecting["password"], connecting["options"])
    assert is_open == spec.is_open_to_strangers
