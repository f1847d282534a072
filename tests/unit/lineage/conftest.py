"""A store of its own for each test that asks one; the applications, which take long to make, are shared."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy import create_engine

from penstock.lineage.api.app import make_app
from penstock.lineage.api.service import Service, SignIn
from penstock.lineage.sign_in.passwords import UsersFile
from penstock.lineage.sign_in.tokens import TokenKey

from support.lineage_rows import Rows, sqlite_engine


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    engine = sqlite_engine(tmp_path)
    yield Rows(engine)
    engine.dispose()


@pytest.fixture(scope="session")
def app_of_this_machine() -> FastAPI:
    """Return an application without sign-in; a test gives it its own service."""
    return make_app(Service(create_engine("sqlite://"), None))


@pytest.fixture(scope="session")
def app_with_sign_in() -> FastAPI:
    """Return an application with sign-in; a test gives it its own service."""
    sign_in = SignIn(TokenKey(bytes(32)), UsersFile(Path("nowhere")))
    return make_app(Service(create_engine("sqlite://"), sign_in))
