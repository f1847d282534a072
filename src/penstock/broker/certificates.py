"""A CA of the cluster's own, and a certificate for each node, as PEM files that only their owner reads."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.config.secrets_folder import SecretsFolder
from penstock.private import write_private

_NODE_NAME = "penstock-node"
NODE_PRINCIPAL = f"CN={_NODE_NAME}"
"""What Kafka calls a node: the subject of its certificate, and so no name that a user can have."""
_VALID = datetime.timedelta(days=3650)


@dataclass(frozen=True)
class Certificates:
    """Makes what is missing in a secrets folder."""

    files: SecretsFolder

    def ensure_ca(self) -> None:
        """Make the CA once."""
        if self.files.ca_pem.exists() and self.files.ca_key.exists():
            return
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Penstock local CA")])
        certificate = (
            _builder(name, name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        write_private(self.files.ca_key, _pem(key))
        write_private(self.files.ca_pem, certificate.public_bytes(serialization.Encoding.PEM))

    def ensure_node(self, node_id: int, host: str) -> None:
        """Make a node's certificate once; it is valid for its host, localhost and the loopback addresses."""
        usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        self._ensure(self.files.node_pem(node_id), _NODE_NAME, host, usage)

    def ensure_service(self, name: str, host: str) -> Path:
        """Make the certificate of a service once, and return it with its key.

        It is valid for servers only, and not as a node's.
        """
        path = self.files.folder / f"service-{name}.pem"
        self._ensure(path, f"penstock-{name}", host, [ExtendedKeyUsageOID.SERVER_AUTH])
        return path

    def _ensure(self, path: Path, common_name: str, host: str, usage: list[x509.ObjectIdentifier]) -> None:
        if path.exists():
            return
        ca_key = serialization.load_pem_private_key(self.files.ca_key.read_bytes(), password=None)
        if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{self.files.ca_key} is not the key that Penstock made")
        ca = x509.load_pem_x509_certificate(self.files.ca_pem.read_bytes())
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        certificate = (
            _builder(subject, ca.subject, key.public_key())
            .add_extension(x509.SubjectAlternativeName(_names(host)), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
            .sign(ca_key, hashes.SHA256())
        )
        chain = [
            certificate.public_bytes(serialization.Encoding.PEM),
            ca.public_bytes(serialization.Encoding.PEM),
        ]
        write_private(path, b"".join([_pem(key), *chain]))


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    # An hour of grace, so that a clock that was set back does not lock the cluster.
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + _VALID)
    )


def _names(host: str) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    for address in ("127.0.0.1", "::1"):
        names.append(x509.IPAddress(ipaddress.ip_address(address)))  # noqa: PERF401 - two kinds of names in one list
    try:
        names.append(x509.IPAddress(ipaddress.ip_address(host)))
    except ValueError:
        names.append(x509.DNSName(host))
    return names


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
