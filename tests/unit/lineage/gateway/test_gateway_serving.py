"""A gateway that cannot serve says why, and starts nothing."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from penstock.errors import BadInput, Conflict
from penstock.kafka.connection import Connection
from penstock.kafka.security import Plain
from penstock.lineage.gateway.app import Gateway
from penstock.lineage.gateway.options import GatewayOptions
from penstock.lineage.gateway.serve import serve
from penstock.listening import listen
from penstock.secret import Secret

_NOBODY = Connection(bootstrap_servers="127.0.0.1:1")


def _serve(options: GatewayOptions) -> None:
    serve(_NOBODY, options, ready=pytest.fail, warn=pytest.fail)


def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("not a certificate")
    for name in ("no.pem", "missing.pem"):
        with pytest.raises(BadInput, match=name):
            _serve(GatewayOptions(port=0, certificate=str(tmp_path / name), key=str(tmp_path / name)))


def test_a_port_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0, "a test") as taken, pytest.raises(Conflict, match="cannot listen"):
        taken.listen()
        _serve(GatewayOptions(port=taken.getsockname()[1]))


def test_a_gateway_that_lets_everybody_write_by_its_login_says_so() -> None:
    known = _NOBODY.model_copy(update={"security": Plain(username="u", password=Secret.of("p"))})
    token = Secret.of("t")
    said: list[list[str]] = []
    for connection, options in (
        (known, GatewayOptions()),
        (known, GatewayOptions(token=token)),
        (_NOBODY, GatewayOptions()),
    ):
        said.append([])
        with listen("127.0.0.1", 0, "a test") as taken, pytest.raises(Conflict, match="cannot listen"):
            taken.listen()
            at = options.model_copy(update={"port": taken.getsockname()[1]})
            serve(connection, at, ready=pytest.fail, warn=said[-1].append)

    assert [1, 0, 0] == [len(each) for each in said]
    assert "everybody on this machine writes" in said[0][0]


def test_a_path_that_is_not_there_leads_nowhere_else() -> None:
    gateway = Gateway(_NOBODY, GatewayOptions())
    with TestClient(gateway.app(), follow_redirects=False) as client:
        answer = client.post("/api/v1/lineage/", json={})

    assert (404, "not_found") == (answer.status_code, answer.json()["error"]["code"])
