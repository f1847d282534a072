import datetime
import ipaddress
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from penstock.broker.certificates import NODE_PRINCIPAL, Certificates
from penstock.config.secrets_folder import SecretsFolder

LOOPBACK = [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")]


@pytest.fixture
def files(tmp_path: Path) -> SecretsFolder:
    return SecretsFolder.of(tmp_path)


@pytest.fixture
def certificates(files: SecretsFolder) -> Certificates:
    made = Certificates(files)
    made.ensure_ca()
    return made


def chain(path: Path) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(path.read_bytes())


def test_a_node_is_signed_by_the_ca_that_clients_trust(certificates: Certificates, files: SecretsFolder) -> None:
    certificates.ensure_node(1, "127.0.0.1")

    (trusted,) = chain(files.ca_pem)
    node, ca = chain(files.node_pem(1))
    node.verify_directly_issued_by(trusted)
    assert trusted == ca


def test_a_node_is_not_signed_by_another_clusters_ca(
    certificates: Certificates, files: SecretsFolder, tmp_path: Path
) -> None:
    other = SecretsFolder.of(tmp_path / "other")
    Certificates(other).ensure_ca()
    certificates.ensure_node(1, "127.0.0.1")

    with pytest.raises(InvalidSignature):
        chain(files.node_pem(1))[0].verify_directly_issued_by(chain(other.ca_pem)[0])


def test_the_key_beside_a_nodes_certificate_belongs_to_it(certificates: Certificates, files: SecretsFolder) -> None:
    certificates.ensure_node(1, "127.0.0.1")

    key = serialization.load_pem_private_key(files.node_pem(1).read_bytes(), password=None)
    assert key.public_key() == chain(files.node_pem(1))[0].public_key()


@pytest.mark.parametrize(
    ("host", "names", "addresses"),
    [
        ("kafka.example.com", ["localhost", "kafka.example.com"], LOOPBACK),
        ("192.0.2.7", ["localhost"], [*LOOPBACK, ipaddress.ip_address("192.0.2.7")]),
        ("2001:db8::7", ["localhost"], [*LOOPBACK, ipaddress.ip_address("2001:db8::7")]),
    ],
    ids=["name", "IPv4", "IPv6"],
)
def test_a_node_is_valid_for_its_host_and_the_loopback(
    certificates: Certificates,
    files: SecretsFolder,
    host: str,
    names: list[str],
    addresses: list[ipaddress.IPv4Address | ipaddress.IPv6Address],
) -> None:
    certificates.ensure_node(1, host)

    node = chain(files.node_pem(1))[0]
    valid_for = node.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names == valid_for.get_values_for_type(x509.DNSName)
    assert addresses == valid_for.get_values_for_type(x509.IPAddress)


def test_a_node_is_both_server_and_client_under_the_nodes_name(
    certificates: Certificates, files: SecretsFolder
) -> None:
    certificates.ensure_node(1, "127.0.0.1")

    node = chain(files.node_pem(1))[0]
    usage = node.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH} == set(usage)
    assert NODE_PRINCIPAL == node.subject.rfc4514_string()


def test_only_the_ca_can_sign_and_only_nodes(certificates: Certificates, files: SecretsFolder) -> None:
    certificates.ensure_node(1, "127.0.0.1")

    node, ca = chain(files.node_pem(1))
    assert (
        x509.BasicConstraints(ca=True, path_length=0)
        == ca.extensions.get_extension_for_class(x509.BasicConstraints).value
    )
    assert x509.BasicConstraints.oid not in [each.oid for each in node.extensions]


def test_both_are_valid_now_and_for_years(certificates: Certificates, files: SecretsFolder) -> None:
    certificates.ensure_node(1, "127.0.0.1")

    now = datetime.datetime.now(datetime.UTC)
    in_nine_years = now + datetime.timedelta(days=9 * 365)
    made = chain(files.node_pem(1))
    assert [True, True] == [each.not_valid_before_utc < now < in_nine_years < each.not_valid_after_utc for each in made]


def test_what_is_there_is_not_made_again(certificates: Certificates, files: SecretsFolder) -> None:
    certificates.ensure_node(1, "127.0.0.1")
    paths = [files.ca_pem, files.ca_key, files.node_pem(1)]
    before = [path.read_bytes() for path in paths]
    certificates.ensure_ca()
    certificates.ensure_node(1, "127.0.0.1")

    assert before == [path.read_bytes() for path in paths]


def test_every_node_has_its_own_key_and_number(certificates: Certificates, files: SecretsFolder) -> None:
    for node_id in (1, 2):
        certificates.ensure_node(node_id, "127.0.0.1")

    first, second = (chain(files.node_pem(node_id))[0] for node_id in (1, 2))
    assert first.serial_number != second.serial_number
    assert first.public_key() != second.public_key()


def test_a_ca_that_was_only_half_made_is_made_whole(files: SecretsFolder) -> None:
    made = Certificates(files)
    made.ensure_ca()
    files.ca_pem.unlink()
    made.ensure_ca()
    made.ensure_node(1, "127.0.0.1")

    chain(files.node_pem(1))[0].verify_directly_issued_by(chain(files.ca_pem)[0])


def test_keys_are_for_their_owner_only(certificates: Certificates, files: SecretsFolder) -> None:
    certificates.ensure_node(1, "127.0.0.1")

    assert ["0o600", "0o600"] == [oct(stat.S_IMODE(p.stat().st_mode)) for p in (files.ca_key, files.node_pem(1))]
