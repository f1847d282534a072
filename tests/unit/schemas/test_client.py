import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from penstock.cli import app
from penstock.errors import BadInput, EnvironmentNotReady, NotFound, Refused, RegistryUnavailable
from penstock.schemas.client import RegistryClient
from penstock.schemas.registry import Registry
from penstock.schemas.schema import Reference, Schema
from penstock.secret import Secret

from support.registry_stub import RegistryStub, registry_stub

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
PASSWORD = "canary-of-the-registry"


@pytest.fixture
def stub() -> Iterator[RegistryStub]:
    with registry_stub() as running:
        yield running


def test_what_an_id_means_is_asked_once(stub: RegistryStub) -> None:
    schema_id = stub.add("orders-value", ORDER)
    client = RegistryClient(stub.registry)

    found = [client.schema(schema_id) for _ in range(3)]

    assert [Schema(text=json.dumps(ORDER))] * 3 == found
    assert ["GET /schemas/ids/1"] == stub.asked


def test_a_subject_keeps_its_slashes_and_dots(stub: RegistryStub) -> None:
    client = RegistryClient(stub.registry)
    client.register("a/b..%2F-value", Schema(text='"string"'))

    assert ["a/b..%2F-value"] == client.subjects()
    assert 1 == client.version("a/b..%2F-value").version


def test_references_are_found_through_others_and_used_ones_come_first(stub: RegistryStub) -> None:
    stub.add("c", "{}")
    stub.add("b", "[]", references=[{"name": "C", "subject": "c", "version": 1}])
    schema = Schema(text="a", references=(Reference(name="B", subject="b", version=1),))

    assert ["C", "B"] == list(RegistryClient(stub.registry).referred(schema))


def test_an_id_that_nobody_knows_is_not_found(stub: RegistryStub) -> None:
    with pytest.raises(NotFound, match="Schema 7 not found"):
        RegistryClient(stub.registry).schema(7)


def test_a_schema_that_is_no_avro_is_reported_before_the_registry_is_asked(stub: RegistryStub, tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text('{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "lng"}]}')
    command = ["schema", "register", "orders-value", str(file), "--registry", stub.url]

    said = CliRunner().invoke(app, command, prog_name="penstock")

    assert (2, []) == (said.exit_code, stub.asked)
    assert "this is not an Avro schema" in said.stderr
    assert "lng" in said.stderr


def test_a_registry_that_does_not_answer_is_an_outage() -> None:
    with registry_stub() as gone:
        client = RegistryClient(gone.registry)

    with pytest.raises(RegistryUnavailable, match="does not answer: Connection refused"):
        client.subjects()


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_errors_of_its_own_are_an_outage(stub: RegistryStub, status: int) -> None:
    stub.answer = (status, b"<html>try later</html>")

    with pytest.raises(RegistryUnavailable, match=f"an error of its own \\({status}\\)"):
        RegistryClient(stub.registry).subjects()


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (200, b"<html>"),
        (200, b"{}"),
        (200, b"null"),
        (404, b"Not here"),
        (302, b""),
        (200, b'{"schema": 7}'),
        (418, b"{}"),
    ],
)
def test_nonsense_is_said_to_be_no_registry(stub: RegistryStub, status: int, content: bytes) -> None:
    stub.answer = (status, content)
    client = RegistryClient(stub.registry)

    with pytest.raises(BadInput, match="does not answer as a schema registry does"):
        client.subjects() if content == b"{}" else client.schema(1)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_login_is_told_without_it(stub: RegistryStub, status: int) -> None:
    stub.answer = (status, json.dumps({"error_code": status, "message": PASSWORD}).encode())
    registry = Registry(url=stub.url, username="ann", password=Secret.of(PASSWORD))

    with pytest.raises(Refused, match="does not let this client") as told:
        RegistryClient(registry).subjects()

    assert PASSWORD not in str(told.value)
    assert PASSWORD not in repr(registry)
    assert PASSWORD.encode() not in pickle.dumps(registry)


def test_logins_go_in_the_header(stub: RegistryStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", "t")
    for registry in (
        {"url": stub.url, "username": "ann", "password": Secret.of("pw")},
        {"url": stub.url, "token": "env:A_TOKEN"},
        stub.url,
    ):
        RegistryClient(Registry.model_validate(registry)).subjects()

    assert ["Basic YW5uOnB3", "Bearer t", None] == stub.authorizations


def test_a_login_that_is_not_there_is_not_a_schema_that_nobody_knows(stub: RegistryStub) -> None:
    registry = Registry(url=stub.url, token=Secret.parse("env:NO_SUCH_TOKEN"))

    with pytest.raises(EnvironmentNotReady, match=r"the login of .* is not there: .*NO_SUCH_TOKEN"):
        RegistryClient(registry).schema(1)

    assert [] == stub.asked


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("ftp://x", "the address of a registry is like"),
        ("http://ann:secret@x", "a login does not stand in the address"),
        ("http://ann:12/secret@x", "a login does not stand in the address"),
        ({"url": "http://x", "username": "ann"}, "belong together"),
        ({"url": "http://x", "ca_file": "a.pem"}, "begins with https"),
        ({"url": "http://x", "username": "a", "password": "env:A", "token": "env:B"}, "not both"),
        ({"url": "http://x", "username": "a", "password": "secret"}, "a secret is not written here"),
        ({"url": "http://x", "username": "a", "password": "env:A"}, "use an https address"),
        ({"url": "http://127.evil.example:8081", "token": "env:A"}, "use an https address"),
        ({"url": "project", "token": "env:A"}, "the project's registry has its own login"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_the_reason(written: object, told: str) -> None:
    with pytest.raises(ValidationError, match=told) as found:
        Registry.model_validate(written)

    assert "secret@" not in str(found.value)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("diff ordrs-value", "has no subject 'ordrs-value'. Did you mean 'orders-value'?"),
        ("diff nothing-like-it", "has no subject 'nothing-like-it'. List subjects with: penstock schema list"),
        ("diff orders-value", "'orders-value' has one version: there is nothing to compare it with. Register another"),
        ("diff orders-value 1 7", "'orders-value' has no version 7; it has 1. Leave it out for the latest"),
        ("show orders-value --version 2", "'orders-value' has no version 2; it has 1"),
        ("diff", "missing argument 'subject'"),
    ],
)
def test_a_subject_or_version_that_is_not_there_is_answered_with_those_that_are(
    stub: RegistryStub, arguments: str, told: str
) -> None:
    stub.add("orders-value", ORDER)

    said = CliRunner().invoke(app, ["schema", *arguments.split(), "--registry", stub.url], prog_name="penstock")

    assert said.exit_code in {2, 3}
    (line,) = said.stderr.splitlines()
    assert told in line
