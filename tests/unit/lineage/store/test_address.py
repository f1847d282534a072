from pathlib import Path

import pytest
from pydantic import ValidationError

from penstock.lineage.store.address import StoreAddress


def _complaint(**keys: str) -> str:
    with pytest.raises(ValidationError) as refused:
        StoreAddress.model_validate(keys)
    return str(refused.value)


def test_a_store_without_a_scheme_is_an_sqlite_file() -> None:
    address = StoreAddress(store="/data/lineage.db")

    assert (Path("/data/lineage.db"), None) == (address.path, address.server)


def test_a_relative_path_counts_from_the_file_that_names_it() -> None:
    address = StoreAddress.model_validate({"store": "lineage.db"}, context={"base": Path("/project")})

    assert Path("/project/lineage.db") == address.path


def test_an_address_of_postgresql_names_host_port_database_and_user() -> None:
    address = StoreAddress.model_validate(
        {"store": "postgresql://lin%40home@db.example.com:6432/lineage", "password": "env:SECRET"}
    )
    server = address.server

    assert server is not None
    assert ("db.example.com", 6432, "lineage", "lin@home") == (server.host, server.port, server.database, server.user)
    assert "env:SECRET" == (server.password.source if server.password else None)


def test_a_unix_socket_is_named_by_its_folder() -> None:
    server = StoreAddress(store="postgresql://me@/lineage?host=/run/postgresql").server

    assert ("/run/postgresql", 5432) == ((server.host, server.port) if server else None)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    said = _complaint(store="postgresql://me:hunter2@db/lineage")

    assert ("name it with `password`" in said, "hunter2" in said) == (True, False)


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        ("mysql://me@db/lineage", "a store is the path of an SQLite file"),
        ("postgresql://db/lineage", "named with user and database"),
        ("postgresql://me@db", "named with user and database"),
        ("postgresql://me@db:port/lineage", "this is not an address"),
        ("postgresql://me@db/lineage?sslmode=disable", "can only be host=FOLDER"),
    ],
)
def test_an_address_that_is_none_is_refused(store: str, reason: str) -> None:
    assert reason in _complaint(store=store)


def test_a_file_takes_no_password() -> None:
    assert "an SQLite file has no `password`" in _complaint(store="lineage.db", password="env:SECRET")
