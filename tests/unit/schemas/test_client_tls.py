"""Registries that speak TLS, and those that ask for a certificate."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.certificates import Certificates
from penstock.config.secrets_folder import SecretsFolder
from penstock.errors import BadInput, Refused
from penstock.schemas.client import RegistryClient
from penstock.schemas.registry import Registry
from penstock.secret import Secret

from support.registry_stub import RegistryStub, registry_stub
from support.tls_front import client_files


@pytest.fixture
def files(tmp_path: Path) -> SecretsFolder:
    made = SecretsFolder.of(tmp_path)
    Certificates(made).ensure_ca()
    Certificates(made).ensure_node(1, "127.0.0.1")
    return made


@pytest.fixture
def strict(files: SecretsFolder) -> Iterator[RegistryStub]:
    """A registry that asks for a certificate of the CA."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=files.ca_pem)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(files.node_pem(1))
    with registry_stub(context) as running:
        running.add("orders-value", '"string"')
        yield running


@pytest.mark.parametrize("login", [{}, {"username": "ann", "password": Secret.of("pw")}, {"token": Secret.of("t")}])
def test_a_certificate_lets_in_with_or_without_a_login(
    strict: RegistryStub, files: SecretsFolder, login: dict[str, Any]
) -> None:
    registry = Registry(
        url=strict.url, ca_file=files.ca_pem, certificate_file=files.node_pem(1), key_file=files.node_pem(1), **login
    )

    assert ["orders-value"] == RegistryClient(registry).subjects()
    assert [{"username": "Basic YW5uOnB3", "token": "Bearer t"}.get(next(iter(login), ""))] == strict.authorizations


def test_without_a_certificate_there_is_one_line_about_it(strict: RegistryStub, files: SecretsFolder) -> None:
    with pytest.raises(Refused, match="do not agree on TLS") as told:
        RegistryClient(Registry(url=strict.url, ca_file=files.ca_pem)).subjects()

    assert "Check `ca_file` and `certificate_file`" == told.value.fix
    assert [] == strict.asked


def test_a_registry_of_an_unknown_ca_is_not_told_the_login(strict: RegistryStub) -> None:
    registry = Registry(url=strict.url, username="ann", password=Secret.of("pw"))

    with pytest.raises(Refused, match="do not agree on TLS: self-signed certificate"):
        RegistryClient(registry).subjects()

    assert [] == strict.authorizations


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ca_file": "broken.pem"}, "broken.pem, .* one is not a PEM file"),
        ({"ca_file": "none.pem"}, "No such file"),
        ({"certificate_file": "broken.pem"}, "one is not a PEM file, or the password does not open the private key"),
        ({"key_password": Secret.of("wrong")}, "one is not a PEM file, or the password does not open the private key"),
        ({"key_password": None}, "one is not a PEM file, or the password does not open the private key"),
        ({"key_password": Secret.of("x" * 2000)}, "password cannot be longer"),
        ({"key_file": "other.pem"}, "the private key is not the one of the certificate"),
    ],
)
def test_certificates_that_cannot_be_used_are_named_with_the_reason(
    files: SecretsFolder, tmp_path: Path, given: dict[str, Any], told: str
) -> None:
    client_files(files, tmp_path, "pw")
    (tmp_path / "broken.pem").write_text("nothing")
    (tmp_path / "other.pem").write_bytes(files.node_pem(1).read_bytes())
    good = {"ca_file": files.ca_pem, "certificate_file": "client.pem", "key_file": "client.key"}
    named = {"key_password": Secret.of("pw"), **good, **given}
    paths = {name: tmp_path / each if isinstance(each, str) else each for name, each in named.items()}

    with pytest.raises(BadInput, match=f"the certificates for .* cannot be used .*{told}"):
        RegistryClient(Registry(url="https://127.0.0.1:1", **paths)).subjects()
