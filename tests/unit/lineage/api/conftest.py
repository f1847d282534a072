"""A client of the lineage service, for whom a test's own store is asked."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from penstock.lineage.api.service import Service

from support.lineage_rows import Rows


@pytest.fixture
def client(app_of_this_machine: FastAPI, rows: Rows) -> TestClient:
    app_of_this_machine.state.service = Service(rows.engine, sign_in=None)
    return TestClient(app_of_this_machine, base_url="http://127.0.0.1:8000", raise_server_exceptions=False)
